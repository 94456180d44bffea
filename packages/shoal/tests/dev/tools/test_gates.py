"""The gates, the tests' own network, locked packages, and rounds of the benchmark."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dev.bench.rounds import Column, Contender, Metrics, compare
from dev.tools.gate_report import TOGETHER, unit_of
from dev.tools.gates import PACKAGES, WITH_PACKAGES, Gate, failures, gates_of, main
from dev.tools.lock import CHOSEN, SETS

ROOT = Path(__file__).resolve().parents[5]

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
INSTALLS = re.compile(r"^(@|pytestmark = ).*pytest\.mark\.registry", re.MULTILINE)


def _gate(name: str, program: str, *arguments: Path) -> Gate:
    return Gate(name, (sys.executable, "-c", program, *map(str, arguments)))


def test_every_gate_runs_and_every_failure_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = "import sys; sys.exit('this is why')"
    good = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
    lanes = [[_gate("first", bad), _gate("second", bad)], [_gate("third", good, tmp_path / "ran")]]
    reasons = {"first": "this is why\n", "second": "this is why\n"}
    assert asyncio.run(failures(lanes)) == reasons
    assert (tmp_path / "ran").exists()
    assert capfd.readouterr().out.count("this is why") == 2


def test_what_failed_is_repeated_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    noisy = "print(*range(1000), 'this is why', sep='\\n'); raise SystemExit(1)"
    lanes = [[_gate("first", noisy), _gate("second", "")]]
    monkeypatch.setattr("dev.tools.gates.gates_of", lambda *_: lanes)
    assert main(["check"]) == 1
    lines = capfd.readouterr().out.splitlines()[-62:]
    assert lines[0] == "== first failed; the last lines it printed:"
    assert lines[1:-1] == [*map(str, range(941, 1000)), "this is why"]
    assert lines[-1].startswith("make check failed: first, 0 min")


def test_what_a_gate_leaves_in_the_temporary_folder_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    leaves = (
        "import pathlib, sys, tempfile; pathlib.Path(sys.argv[1]).write_text(tempfile.mkdtemp())"
    )
    lanes = [[_gate("first", leaves, tmp_path / "name")]]
    monkeypatch.setattr("dev.tools.gates.gates_of", lambda *_: lanes)
    assert main(["check"]) == 0
    assert not Path((tmp_path / "name").read_text()).exists()


def test_lanes_run_side_by_side(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    lanes = [[_gate("first", MEETS, here, there)], [_gate("second", MEETS, there, here)]]
    assert asyncio.run(failures(lanes)) == {}


def test_an_unknown_tier_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["everything"]) == 2
    assert "check|test|all" in capsys.readouterr().err


@pytest.mark.parametrize("tier", ["check", "test", "all"])
def test_every_tier_has_the_linters_and_names_tests_that_exist(tier: str) -> None:
    lanes = gates_of(tier, [])
    assert {"ruff check", "mypy", "layers", "environments"} <= {gate.name for gate in lanes[0]}
    missing = [
        f"{gate.folder}/{word}"
        for gate in lanes[1]
        for word in gate.command
        if word.startswith("tests/") and not (ROOT / gate.folder / word).exists()
    ]
    assert missing == []


def test_only_the_last_tier_runs_what_is_nightly() -> None:
    marks = {tier: gates_of(tier, [])[1][0].command for tier in ("check", "test", "all")}
    assert [tier for tier, words in marks.items() if "not registry" in words] == ["all"]


def test_tests_that_install_packages_are_collected_by_the_gate_that_has_a_network() -> None:
    marked = [
        (package, path.relative_to(ROOT / package))
        for package in PACKAGES
        for path in (ROOT / package / "tests").rglob("test_*.py")
        if INSTALLS.search(path.read_text(encoding="utf-8"))
    ]
    assert len(marked) > 2
    assert [
        path
        for package, path in marked
        if not any(path.is_relative_to(folder) for folder in WITH_PACKAGES.get(package, ()))
    ] == []


def test_files_that_share_a_fixture_exist_and_stay_together() -> None:
    files = [file for group in TOGETHER.values() for file in group]
    assert [file for file in files if not (ROOT / "packages/shoal" / file).is_file()] == []
    units = {unit_of(f"{file}::test_something") for file in files}
    assert units == set(TOGETHER)
    assert unit_of("tests/settings/test_names.py::test_it") == "tests/settings/test_names.py"


@pytest.mark.parametrize("name", [*SETS, *CHOSEN])
def test_every_locked_package_has_a_hash(name: str) -> None:
    text = (ROOT / f"{name}.txt").read_text()
    packages = re.findall(r"^[\w.\[\]-]+==\S+(.*(?:\n[ ]+\S.*)*)", text, re.MULTILINE)
    assert packages
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", package) for package in packages)
    assert "://" not in text


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


def test_contenders_alternate_and_ratios_stay_within_a_round(tmp_path: Path) -> None:
    turns: list[str] = []
    speeds = {"ours": [20.0, 90.0, 40.0], "theirs": [10.0, 30.0, 20.0]}

    def contender(name: str) -> Contender:
        def measure() -> Metrics:
            turns.append(name)
            return {"speed": speeds[name].pop(0)}

        return Contender(name, measure)

    columns = [Column("speed", "speed", digits=0), Column("over theirs", "speed", "theirs")]
    both = [contender("ours"), contender("theirs")]
    comparison = compare("training", "Training", both, columns, rounds=3)
    assert turns == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert "| ours | 40 (20-90) | 2.00 (2.00-3.00) |" in comparison.table()
    comparison.write(tmp_path)
    assert json.loads((tmp_path / "training.json").read_text())["machine"]["cores"]
