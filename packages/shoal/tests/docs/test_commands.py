"""The commands that pages show exist, keys are current, and attacks have the tests they name."""

from __future__ import annotations

import ast
import re
import subprocess
from importlib.util import find_spec

import click
import pytest

from dev.tools.reference import COMMAND, FOLDER
from dev.tools.reference import pages as reference_pages
from shoal.cli.lazy import Deferred
from shoal.cli.main import shoal
from tests.docs.pages import ROOT, code_spans, commands, pages, text_of
from tests.repository import CHECKOUT
from tests.workflows.rules import refusal

TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_MAKE = re.compile(r"make ((?!help)[a-z][a-z-]+)")


def mistake_in(words: list[str]) -> str | None:
    """Return why a command would not start, as far as it is one of ours."""
    program = words[0].rpartition("/")[2]
    if program == "shoal":
        # a folder of the reader's own
        return refusal(["." if word.startswith("mine/") else word for word in words[1:]])
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
