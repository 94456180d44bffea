"""An interrupted `shoal deploy` on a terminal: what the live view leaves on the screen."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.repository import ROOT

_PROGRAM = """
import os, signal
from types import SimpleNamespace
from shoal.cli.commands.platform.deployment import deploying
from shoal.cli.endings import interrupted_once
from shoal.aws.events import Detail
from shoal.verbs.flow import phase

stacks = SimpleNamespace(busy=lambda: {"shoal-mnist-dev-data": "CREATE_IN_PROGRESS"})
target = SimpleNamespace(is_local=True)
session = SimpleNamespace(stacks=lambda report: stacks, target=target, arguments="dev --local")
with interrupted_once(), deploying(session) as view, phase("deploy dev to a place", view):
    view(Detail("shoal-mnist-dev-data: creating stack... " + "x" * 200))
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize("columns", [80, 120])
def test_the_message_stands_below_the_live_view(columns: int) -> None:
    output = _on_a_terminal(columns)
    drawn = [match.end() for match in re.finditer(r"\x1b\[[0-9;]*[A-KJ]|\x1b\[\?25h", output)]
    below = output[drawn[-1] :]
    assert "CloudFormation goes on: stack shoal-mnist-dev-data is CREATE_IN_PROGRESS" in below
    assert "to go on here: `shoal deploy dev --local`" in below


def _on_a_terminal(columns: int) -> str:
    """Return all that the program writes to a terminal of that width."""
    ours, its = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "LINES": "24", "TERM": "xterm-256color"}
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=its, stderr=its):
        os.close(its)
        output = b""
        while block := _read(ours):
            output += block
    os.close(ours)
    return output.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the last writer has closed it
        return b""
