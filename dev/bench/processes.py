"""Starting what is measured: a command in a process group of its own, on chosen cores, with a
deadline; its time and output come out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.bench.noise import pinned

TAIL_LINES = 15


class RunFailedError(Exception):
    """A contender ended with an error; the text has its last lines."""


@dataclass(frozen=True)
class Finished:
    """A command that ended with exit code 0."""

    wall_s: float
    """From the start of the process to its end."""
    stdout: str
    result: dict[str, Any]
    """The last line of stdout that is a JSON object, which is how contenders report; empty without
    one.
    """


def run(
    command: Sequence[str | Path],
    *,
    on: frozenset[int],
    environ: Mapping[str, str],
    folder: Path,
    timeout_s: float = 300,
) -> Finished:
    """Run to the end on these cores. Raises RunFailedError; nothing that it started is left."""
    began_at = time.perf_counter()
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
    except subprocess.TimeoutExpired as expired:
        raise RunFailedError(f"{_words(command)} did not end within {timeout_s:.0f} s") from expired
    finally:
        wall_s = time.perf_counter() - began_at
        _kill_group(process)
    if process.returncode:
        last = "\n".join((stdout + stderr).strip().splitlines()[-TAIL_LINES:])
        raise RunFailedError(
            f"{_words(command)} ended with exit code {process.returncode}:\n{last}"
        )
    return Finished(wall_s, stdout, _last_json(stdout))


def end_on_sigterm() -> None:
    """Let SIGTERM unwind the program, so that what it started is ended; exit code 143."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def plain_environment(**more: str) -> dict[str, str]:
    """What a contender sees of ours: where programs and temporary files are, and nothing that tunes
    one and not the other.
    """
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "TMPDIR", "LANG", "SHOAL_RUNTIMES")
        if name in os.environ
    }
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **more}


def _kill_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _last_json(text: str) -> dict[str, Any]:
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}


def _words(command: Sequence[str | Path]) -> str:
    return " ".join(str(word) for word in command[:6])
