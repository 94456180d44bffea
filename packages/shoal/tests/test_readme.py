"""README has the two commands, and the command that it shows is there."""

from __future__ import annotations

import subprocess

import pytest

from tests.docs.pages import ROOT, commands, text_of

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
