"""Signals, sent to a real process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.repository import ROOT

PROGRAM = """
import select, sys, time
from shoal.cli.endings import interrupted_once
with interrupted_once("ends within a minute") as shield:
    if "shielded" in sys.argv:
        shield()
    try:
        print("up", flush=True)
        while True:  # a signal just before a long wait would be seen after it only
            time.sleep(0.1)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        if sys.argv[1] == "until told":
            while not select.select([sys.stdin], [], [], 0.1)[0]:
                pass
        print("cleaned up", flush=True)
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts(number: signal.Signals) -> None:
    process = start("at once")
    process.send_signal(number)
    assert process.communicate(timeout=10)[0] == "interrupted\ncleaned up\n"


def test_a_second_signal_does_not_disturb_the_cleaning_up() -> None:
    process = start("until told")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    said = [process.stderr.readline() for _ in range(2)]
    assert said == ["\n", "ends within a minute\n"]
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n"
    assert "cannot be interrupted" in process.stderr.readline()
    assert process.communicate(timeout=10)[0] == "cleaned up\n"


def test_a_shielded_part_is_not_interrupted_at_all() -> None:
    process = start("at once", "shielded")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline() == "\n"
    assert "cannot be interrupted" in process.stderr.readline()
    process.kill()
    assert process.communicate(timeout=10)[0] == ""
