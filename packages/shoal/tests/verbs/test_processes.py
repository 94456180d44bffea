"""Start and stop real child processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.errors import AnswerError, CommandError, ToolMissingError
from shoal.processes import (
    Command,
    descendants,
    is_alive,
    output_of,
    run,
    start_detached,
    stop,
    tail_of,
)
from tests.processes import mentioning


def command(tmp_path: Path, program: str) -> Command:
    arguments, variables = (sys.executable, "-c", program), {"MARK": str(tmp_path)}
    return Command("the program", arguments, tmp_path, variables, tmp_path / "log", 20.0)


def forking(tmp_path: Path) -> Command:
    """Return a program with a child, both of which would run for a minute."""
    return command(
        tmp_path,
        "import subprocess, time; subprocess.Popen(['sleep', '60']); print('up', flush=True);"
        " time.sleep(60)",
    )


def gone(text: str) -> bool:
    deadline = time.monotonic() + 5
    while mentioning(text) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not mentioning(text)


def test_output_goes_to_the_log_and_line_by_line_to_the_caller(tmp_path: Path) -> None:
    lines: list[str] = []
    run(command(tmp_path, "print('one'); print('two')"), lines.append)
    assert lines == (tmp_path / "log").read_text().splitlines() == ["one", "two"]


def test_a_child_gets_only_the_environment_it_is_given(tmp_path: Path) -> None:
    program = "import os; print(sorted(name for name in os.environ if name != 'LC_CTYPE'))"
    run(command(tmp_path, program))
    assert (tmp_path / "log").read_text().strip() == "['MARK']"


def test_a_failure_carries_the_exit_code_the_last_lines_and_the_log(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        run(command(tmp_path, "print('the reason'); raise SystemExit(3)"))
    assert caught.value.exit_code == 3
    assert "the reason" in str(caught.value)
    assert str(tmp_path / "log") in str(caught.value)


def test_a_child_that_overstays_is_killed_with_its_group(tmp_path: Path) -> None:
    lines: list[str] = []
    timeout_s = 0.25
    while "up" not in lines:  # a busy machine may take longer to start the two
        timeout_s *= 2
        with pytest.raises(CommandError, match="did not end in time"):
            run(replace(forking(tmp_path), timeout_s=timeout_s), lines.append)
    assert gone(str(tmp_path))


def test_an_interruption_takes_the_whole_group_along(tmp_path: Path) -> None:
    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(forking(tmp_path), interrupt)
    assert gone(str(tmp_path))


def test_a_detached_child_lives_until_it_is_stopped(tmp_path: Path) -> None:
    process = start_detached(command(tmp_path, "import time; time.sleep(60)"))
    assert process.pid in mentioning(str(tmp_path))
    stop(process)
    assert not is_alive(process.pid)


def test_descendants_are_children_and_their_children(tmp_path: Path) -> None:
    process = start_detached(forking(tmp_path))
    while "up" not in (tmp_path / "log").read_text():
        time.sleep(0.02)
    (child,) = descendants(process.pid)
    assert child in descendants(os.getpid())
    stop(process)


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf',"
        " flush=True); time.sleep(60)"
    )
    process = start_detached(command(tmp_path, program))
    while "deaf" not in (tmp_path / "log").read_text():
        time.sleep(0.02)
    stop(process, grace_s=0.1)
    assert process.returncode == -9


def test_a_process_that_has_ended_and_waits_for_its_parent_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    deadline = time.monotonic() + 5
    while is_alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(process.pid)
    process.wait()


def test_the_tail_of_a_log_that_was_never_written_is_empty(tmp_path: Path) -> None:
    assert tail_of(tmp_path / "none") == ()


def test_a_program_that_answers_is_quoted_and_one_that_complains_is_too(tmp_path: Path) -> None:
    def answer(script: str) -> str:
        return output_of(("sh", "-c", script), tmp_path, {"PATH": os.defpath}, 10)

    assert answer("echo yes; echo but >&2") == "yes\n"
    with pytest.raises(AnswerError, match="sh -c failed with exit code 3: no"):
        answer("echo no >&2; exit 3")


def test_a_program_that_does_not_answer_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(AnswerError, match=r"sleep 60 did not end in 0\.2 s"):
        output_of(("sleep", "60"), tmp_path, {"PATH": os.defpath}, 0.2)


def test_a_program_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolMissingError, match="no-such-program is not installed"):
        output_of(("no-such-program",), tmp_path, {"PATH": os.defpath}, 10)
