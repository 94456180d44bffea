"""The tests' own network: loopback works, and nothing else is there."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[5]
PROGRAM = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
print([name for _, name in socket.if_nameindex()])
"""


def _run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dev.tools.loopback", sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_command_has_loopback_and_no_other_interface_that_is_up() -> None:
    outcome = _run(PROGRAM)
    if "no network of its own" in outcome.stderr:
        pytest.skip(outcome.stderr.strip())
    assert outcome.stdout.strip() == "['lo']", outcome.stderr


def test_the_exit_code_is_the_commands() -> None:
    assert _run("raise SystemExit(7)").returncode == 7


def test_the_network_of_the_caller_stays_as_it_is() -> None:
    before = socket.if_nameindex()
    _run(PROGRAM)
    assert socket.if_nameindex() == before
