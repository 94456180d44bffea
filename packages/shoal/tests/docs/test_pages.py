"""What pages say is so: commands exist, keys are current, attacks have the tests they name, and the
functions of docs/own-pipeline.md run as they stand there.
"""

import ast
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest

from dev.tools.reference import COMMAND, FOLDER
from dev.tools.reference import pages as reference_pages
from local_kit.tables import table
from shoal.cli.main import Deferred, shoal
from shoal.launch import launch_of
from shoal.pipelines.checks.check import check
from shoal.pipelines.graph import placeholder_infrastructure
from shoal.pipelines.own_pipeline import definition_of
from shoal.settings.parsing.errors import ConfigError
from tests.docs.pages import ROOT, code_spans, commands, pages, text_of
from tests.pipelines import inputs
from tests.pipelines.inputs import environment, steps_by_name
from tests.repository import CHECKOUT
from tests.workflows.rules import refusal

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_MAKE = re.compile(r"make ((?!help)[a-z][a-z-]+)")


def mistake_in(words: list[str]) -> str | None:
    """Return why a command would not start, as far as it is one of ours."""
    program = words[0].rpartition("/")[2]
    if program == "shoal":
        # a folder of the reader's own
        return refusal(["." if f"{word}/".startswith("mine/") else word for word in words[1:]])
    if program == "make":
        target = next((word for word in words[1:] if re.fullmatch(r"[a-z-]+", word)), "help")
        return None if target in TARGETS else f"no target {target}"
    if program.startswith("python") and words[1] == "-m":
        return None if find_spec(words[2]) else f"no module {words[2]}"
    return None


def unknown_verb(span: str) -> str | None:
    """Return the first word after `shoal` that names no command, if there is one."""
    command: click.Command = shoal
    for word in span.split()[1:]:
        if not isinstance(command, click.Group) or not re.fullmatch("[a-z]+", word):
            return None
        listed = command.commands.get(word)
        if listed is None:
            return word
        command = listed.load() if isinstance(listed, Deferred) else listed
    return None


@pytest.mark.parametrize("page", pages())
def test_every_command_in_a_block_would_start(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where a reader types
    mistakes = {" ".join(words): mistake_in(words) for words in commands(text_of(page))}
    assert {command: mistake for command, mistake in mistakes.items() if mistake} == {}


@pytest.mark.parametrize("page", [each for each in pages() if "CHANGELOG" not in each])
def test_every_verb_and_target_in_a_line_exists(page: str) -> None:
    spans = code_spans(text_of(page))
    targets = {target for span in spans for target in _MAKE.findall(span) if _MAKE.match(span)}
    verbs = {span: unknown_verb(span) for span in spans if span.startswith("shoal ")}
    assert targets - TARGETS == set()
    assert {span: word for span, word in verbs.items() if word} == {}


COMMANDS = list(commands(text_of("README.md")))


@pytest.mark.parametrize("target", ["demo", "test"])
def test_readme_has_the_two_commands_and_make_knows_them(target: str) -> None:
    assert ["make", target] in COMMANDS
    command = ["make", "-n", target]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_command_that_readme_shows_is_installed() -> None:
    (program,) = {words[0] for words in COMMANDS if words[0].endswith("bin/shoal")}
    command = [str(ROOT / program), "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stdout.startswith("Usage: shoal"), result.stderr


@pytest.mark.parametrize("name", sorted(reference_pages()))
def test_keys_are_current(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert committed == reference_pages()[name], f"docs/reference/{name}: run `{COMMAND}`"


TABLE = (CHECKOUT / "packages/shoal/tests/red_team/README.md").read_text()
TESTS = re.findall(r"`(packages/shoal(?:-local)?/tests/[\w/]+\.py)::(test_\w+)`", TABLE)


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_it_exists(file: str, name: str) -> None:
    tree = ast.parse((CHECKOUT / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


PAGE = (ROOT / "docs" / "own-pipeline.md").read_text(encoding="utf-8")
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
UNCHANGED, CHECKED, ASKED = CODE.findall(PAGE)
SCORED: str = table(inputs.__file__, "own_pipeline.yaml")["scored"]
STANDARD = check(environment()).definition


def built(folder: Path, code: str, name: str) -> dict[str, Any]:
    """Return the checked definition of a function that a user put into a module `name`."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    settings = environment().model_copy(update={"pipeline": f"{name}:build"})
    return definition_of(
        settings, placeholder_infrastructure(settings), launch_of(settings), folder
    )


def test_without_a_change_it_is_shoals_own(tmp_path: Path) -> None:
    assert built(tmp_path, UNCHANGED, "page_unchanged") == STANDARD


def test_the_message_on_the_page_is_the_one_that_a_user_gets(tmp_path: Path) -> None:
    (message,) = re.findall(r"```\n(in the definition, step SmokeTest: .*)\n```", PAGE)
    code = SCORED.replace("*_, teardown =", "_, _, smoke_test, teardown =")
    code = code.replace("create_model, score, teardown)", "create_model, smoke_test, teardown)")
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, code, "prices")
    assert message in str(caught.value)


def test_training_waits_for_the_check_of_the_data(tmp_path: Path) -> None:
    steps = steps_by_name(built(tmp_path, CHECKED, "page_checked"))
    assert next(iter(steps)) == "CheckData"
    assert steps["Train"]["DependsOn"] == ["CheckData"]
    inputs = steps["CheckData"]["Arguments"]["ProcessingInputs"]
    assert [each["S3Input"]["S3Uri"] for each in inputs] == [
        {"Get": "Parameters.CodeUri"},
        {"Get": "Parameters.TrainDataUri"},
    ]


def test_nothing_is_registered_before_the_answer(tmp_path: Path) -> None:
    steps = steps_by_name(built(tmp_path, ASKED, "page_asked"))
    assert steps["Ask"]["Type"] == "Callback"
    assert steps["Register"]["DependsOn"] == ["Ask"]


def test_a_transform_stands_in_the_place_of_the_endpoint(tmp_path: Path) -> None:
    steps = steps_by_name(built(tmp_path, SCORED, "page_scored"))
    assert list(steps)[3:] == [
        *("Seal", "Register", "CreateModel", "Score", "Teardown", "GateFailed")
    ]
    assert steps["Teardown"]["DependsOn"] == ["Score"]
