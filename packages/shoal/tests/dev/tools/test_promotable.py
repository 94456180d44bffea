"""Which workloads a run of promote.yml is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dev.tools.promotable import main
from tests.cli.several import checkout_of_two
from tests.repository import ROOT

WAY = ("--from", "dev", "--to", "staging")
VERSION = "arn:aws:sagemaker:us-east-1:111122223333:model-package/shoal-{workload}-dev/3"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return checkout_of_two(tmp_path)


def names(capsys: pytest.CaptureFixture[str], root: Path, *options: str) -> list[str]:
    assert main([*WAY, *options], root) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["from"], row["to"], row["trainer"]) for row in rows} <= {("dev", "staging", "dev")}
    return [row["workload"] for row in rows]


def test_an_approval_is_of_the_workload_whose_registry_has_it(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for workload in ("mnist", "prices"):
        package = VERSION.format(workload=workload)
        assert names(capsys, two, "--package", package) == [workload]
    assert names(capsys, two, "--workload=prices", "--package=3") == ["prices"]


def test_one_workload_need_not_be_named_for_any_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert names(capsys, ROOT) == ["mnist"]
    assert names(capsys, ROOT, "--package", "3") == ["mnist"]


def test_what_serves_nothing_is_not_promoted(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = two / "environments" / "staging.yaml"
    file.write_text(file.read_text().replace("  prices:\n", "  prices:\n    endpoint: none\n"))
    assert names(capsys, two) == ["mnist"]
    for workload, promoted in {"mnist": ["mnist"], "prices": []}.items():
        assert names(capsys, two, "--package", VERSION.format(workload=workload)) == promoted


def test_an_approval_of_what_the_next_environment_lacks_promotes_nothing(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = two / "environments" / "staging.yaml"
    file.write_text(file.read_text().partition("  prices:\n")[0])
    package = VERSION.format(workload="prices")
    assert names(capsys, two, "--package", package) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--workload", "boats"), 'has no workload "boats"; there are: mnist, prices'),
        (("--package", "3"), "is no ARN of a version in one of these registries: shoal-mnist-dev"),
        (("--package", VERSION.format(workload="boats")), "name the workload"),
        (("--to", "nowhere"), 'no environment "nowhere"'),
        (("--from", "staging"), "no environment may be skipped"),
    ],
)
def test_what_is_in_no_file_is_one_line(
    two: Path, options: tuple[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    package = () if options[0] != "--from" else ("--package", "3")
    assert main([*WAY, *options, *package], two) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
