"""The gates run side by side, those that train one by one, and every failure is named."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dev.tools.gates import FOLDERS, RELEASES, ROOT, TRAINING, Gate, failures, main

MEETS = """
import pathlib, sys, time
here, other = map(pathlib.Path, sys.argv[1:])
here.touch()
deadline = time.monotonic() + 30
while not other.exists():
    if time.monotonic() > deadline:
        sys.exit('nobody came')
    time.sleep(0.01)
"""
ALONE = """
import pathlib, sys, time
mark = pathlib.Path(sys.argv[1])
mark.touch(exist_ok=False)
time.sleep(0.1)
mark.unlink()
"""


def _gate(name: str, program: str, *arguments: Path) -> Gate:
    return Gate(name, (sys.executable, "-c", program, *map(str, arguments)))


def test_every_gate_runs_and_every_failure_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad, good = (
        "import sys; sys.exit('this is why')",
        "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()",
    )
    gates = [_gate("first", bad), _gate("second", bad), _gate("third", good, tmp_path / "ran")]
    assert asyncio.run(failures(gates[:1], gates[1:], lanes=1)) == {
        "first": "this is why\n",
        "second": "this is why\n",
    }
    assert (tmp_path / "ran").exists()
    assert capfd.readouterr().out.count("this is why") == 2


def test_what_failed_is_said_again_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    noisy = "print(*range(1000), 'this is why', sep='\\n'); raise SystemExit(1)"
    monkeypatch.setattr("dev.tools.gates.LINT", (_gate("first", noisy), _gate("second", "")))
    assert main(["lint"]) == 1
    said = capfd.readouterr().out.splitlines()
    assert said[-62:] == [
        "== first failed; the last lines it printed:",
        *map(str, range(941, 1000)),
        "this is why",
        "gates failed: first",
    ]


def test_a_gate_of_the_first_kind_runs_beside_one_of_the_second(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert (
        asyncio.run(
            failures(
                [_gate("first", MEETS, here, there)], [_gate("second", MEETS, there, here)], lanes=2
            )
        )
        == {}
    )


def test_gates_that_train_run_one_by_one(tmp_path: Path) -> None:
    assert (
        asyncio.run(
            failures(
                [_gate(str(number), ALONE, tmp_path / "mark") for number in range(3)], [], lanes=3
            )
        )
        == {}
    )


def test_the_folders_that_have_a_gate_of_their_own_exist() -> None:
    assert [folder for folder in (*TRAINING, *FOLDERS) if not (ROOT / folder).is_dir()] == []
    assert (ROOT / RELEASES).is_file()
