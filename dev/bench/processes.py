"""Start what is measured: a process group of its own, chosen cores, a deadline."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.bench.rounds import pinned

TAIL_LINES = 15
TICKS = os.sysconf("SC_CLK_TCK")


class RunFailedError(Exception):
    """A contender ended with an error; the text has its last lines."""


@dataclass(frozen=True)
class Finished:
    """A command that ended with exit code 0."""

    wall_s: float
    """From the start of the process to its end."""
    stdout: str
    result: dict[str, Any]
    """The last line of stdout that is a JSON object, which is how contenders report; else empty."""


def tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of the process and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def run(
    command: Sequence[str | Path],
    *,
    on: frozenset[int],
    environ: Mapping[str, str],
    folder: Path,
    timeout_s: float = 300,
) -> Finished:
    """Run a command to its end on these cores; raise RunFailedError.

    Nothing that it started is left.
    """
    started_at = time.perf_counter()
    with pinned(on):
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise RunFailedError(f"{_words(command)} did not end within {timeout_s:.0f} s") from error
    finally:
        wall_s = time.perf_counter() - started_at
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        tail = "\n".join((stdout + stderr).strip().splitlines()[-TAIL_LINES:])
        raise RunFailedError(
            f"{_words(command)} ended with exit code {process.returncode}:\n{tail}"
        )
    return Finished(wall_s, stdout, _last_json(stdout))


def end_on_sigterm() -> None:
    """Let SIGTERM unwind the program, so that what it started ends; exit code 143."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def plain_environment(**variables: str) -> dict[str, str]:
    """Return a contender's environment: where programs and temporary files are.

    Nothing in it tunes one contender and not the other.
    """
    inherited = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "TMPDIR", "LANG", "SHOAL_RUNTIMES")
        if name in os.environ
    }
    return {**inherited, "PYTHONDONTWRITEBYTECODE": "1", **variables}


def _last_json(text: str) -> dict[str, Any]:
    """Return the last object; what a trainer prints as Python writes it is none."""
    for line in reversed(text.splitlines()):
        if line.startswith('{"'):
            result: dict[str, Any] = json.loads(line)
            return result
    return {}


def _words(command: Sequence[str | Path]) -> str:
    return " ".join(str(word) for word in command[:6])
