"""Verbs of an environment with several workloads, as a user words them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from shoal.cli.main import main
from shoal.cli.options import environment_argument
from shoal.verbs.workspace import Workspace
from tests.cli.documents import document_in
from tests.cli.several import checkout_of_two
from tests.repository import ROOT

TWO = "environments/dev.yaml: has several workloads (mnist, prices); name one, as in `dev mnist`"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout_of_two(tmp_path_factory.mktemp("checkout"))


@click.command()
@environment_argument
@click.argument("execution")
@click.argument("step", required=False)
@click.option("--local", is_flag=True)
def verb(**parameters: object) -> Mapping[str, object]:
    """Return what it was given."""
    return parameters


def words(root: Path, *arguments: str) -> list[object]:
    """Return the words that the verb has in its places."""
    given = verb.main(list(arguments), standalone_mode=False, obj=Workspace(root, {}))
    return [given[key] for key in ("environment", "workload", "execution", "step")]


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ("dev prices latest", ["dev", "prices", "latest", None]),
        ("dev prices latest Train", ["dev", "prices", "latest", "Train"]),
        ("dev --local prices latest", ["dev", "prices", "latest", None]),
        ("environments/dev.yaml prices latest", ["dev", "prices", "latest", None]),
        ("dev latest", ["dev", None, "latest", None]),
        ("dev latest Train", ["dev", None, "latest", "Train"]),
        ("dev latest prices", ["dev", None, "latest", "prices"]),
    ],
)
def test_a_word_may_be_the_workload(two: Path, arguments: str, places: list[object]) -> None:
    assert words(two, *arguments.split()) == places


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ("dev mnist", ["dev", None, "mnist", None]),
        ("dev mnist latest", ["dev", "mnist", "latest", None]),
        ("dev latest Train", ["dev", None, "latest", "Train"]),
    ],
)
def test_the_only_workload_may_be_named(arguments: str, places: list[object]) -> None:
    assert words(ROOT, *arguments.split()) == places


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("dev prices", "Missing argument 'EXECUTION'"),
        ("dev prices latest Train more", "Got unexpected extra argument (more)"),
        ("dev latest Train more", "Got unexpected extra argument (more)"),
    ],
)
def test_words_missing_or_too_many_are_named(two: Path, arguments: str, message: str) -> None:
    with pytest.raises(click.UsageError) as refusal:
        words(two, *arguments.split())
    assert message in refusal.value.format_message() + str(refusal.value)


@pytest.mark.parametrize(
    "verb",
    [
        "run dev",
        "status dev latest",
        "stop dev latest",
        "logs dev latest Train",
        "data upload dev",
        "invoke dev --body README.md",
        "approve dev",
        "schedule list dev",
        "schedule pause dev nightly",
        "image build dev",
        "destroy dev --serving",
    ],
)
def test_a_verb_of_one_workload_names_them_where_there_are_several(
    verb: str, two: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["--root", str(two), *verb.split(), "--local"]) == 2
    assert capsys.readouterr().err.splitlines() == [f"shoal: {TWO}"]


@pytest.mark.parametrize("verb", ["run dev", "deploy dev", "diff dev", "destroy --leftovers dev"])
def test_no_workload_is_told(verb: str, two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(two), *verb.split(), "prizes", "--local"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'has no workload "prizes"; there are: mnist, prices' in line


def test_check_has_a_line_a_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = checkout_of_two(tmp_path)
    assert main(["--root", str(root), "check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    placeholder = [line for line in lines if "(dev): account 111122223333 is a placeh" in line]
    assert [line for line in lines if "dev.yaml" in line] == [
        f"environments/dev.yaml: {name}: ok (torchrun on 2 x ml.m5.xlarge)"
        for name in ("mnist", "prices")
    ]
    assert len(placeholder) == 1
    file = root / "environments" / "dev.yaml"
    file.write_text(file.read_text().replace("us-east-1", "us-nowhere-1"))
    assert main(["--root", str(root), "check"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len([line for line in errors if "region" in line and "us-nowhere-1" in line]) == 1


def test_plan_counts_what_is_shared_once(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plans: dict[str, dict[str, Any]] = {}
    for arguments in ("dev", "dev prices"):
        assert main(["--root", str(two), "plan", *arguments.split(), "--json"]) == 0
        plans[arguments] = document_in(capsys.readouterr().out)
    of_prices = [f"shoal-prices-dev-{part}" for part in ("image", "pipeline", "monitoring")]
    assert [stack["name"] for stack in plans["dev"]["stacks"]] == [
        "shoal-platform-dev-data",
        "shoal-platform-dev-network",
        *(name.replace("prices", "mnist") for name in of_prices),
        *of_prices,
    ]
    own_key = "KMS key of the image"
    assert [line["what"] for line in plans["dev"]["at_rest"]["lines"]] == [
        "KMS key",
        f"mnist: {own_key}",
        f"prices: {own_key}",
    ]
    assert [stack["name"] for stack in plans["dev prices"]["stacks"]] == of_prices
    assert [line["what"] for line in plans["dev prices"]["at_rest"]["lines"]] == [own_key]
    assert plans["dev"]["workloads"]["prices"]["training"] == plans["dev prices"]["training"]
