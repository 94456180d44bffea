"""The commands README shows exist as written."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.repository import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL)).splitlines()
COMMANDS = [line.split("#")[0].split() for line in LINES if line]
SHOAL = [command[1:] for command in COMMANDS if command[0] == ".venv/bin/shoal"]
MAKE = [command[1:] for command in COMMANDS if command[0] == "make"]


def test_readme_has_the_two_commands() -> None:
    assert ["demo"] in MAKE
    assert ["test"] in MAKE


@pytest.mark.parametrize("target", [command[0] for command in MAKE])
def test_make_knows_the_target(target: str) -> None:
    result = subprocess.run(
        ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("arguments", SHOAL, ids=" ".join)
def test_shoal_accepts_the_arguments(arguments: list[str]) -> None:
    # With an unknown environment the command line is parsed whole, and nothing is started.
    words = ["no-such-environment" if word == "dev" else word for word in arguments]
    if words == arguments:
        words.append("--help")
    result = subprocess.run(
        [ROOT / ".venv" / "bin" / "shoal", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Usage:" not in result.stderr, result.stderr
    assert "--help" in words or "no-such-environment" in result.stderr


@pytest.mark.parametrize(
    "path", re.findall(r"`(docs/[\w.-]+/?|environments/[\w.-]+|training_code/[\w/.]+)`", README)
)
def test_file_named_in_readme_exists(path: str) -> None:
    assert (ROOT / path).exists()
