"""Runs every gate, as many side by side as there are cores, shows what each printed when it is
done, and fails if any failed.

.venv/bin/python dev/tools/gates.py [lint]

Tests that train keep every core busy by themselves, so their gates come one after the other, in a
lane of their own; the rest fills the cores they leave idle. Each gate is a process with its own
network, temporary folder and session fixtures: what passes here passes alone.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = str(ROOT / ".venv" / "bin" / "python")
TENSORFLOW = "training_code/tensorflow"
OPTIONS = (
    "--allow-untyped-decorators",
    "--cache-dir",
    ".mypy_cache/tensorflow",
)  # tf.function, where TensorFlow is not installed
TRAINING = (
    "tests/end_to_end",
    "local/tests/sagemaker",
    "tests/training_code",
    "local/tests/smddp",
    "tests/chaos",
    "local/tests/horovod",
)
"""Folders of tests that start ranks, the longest first."""
RELEASES = "tests/end_to_end/test_gitops.py"
"""Minutes of the cdk CLI and of waiting, one process at a time: not in the lane of its folder,
which is the longest.
"""
FOLDERS = ("tests/stacks", "local/tests/control", "tests/verbs", "tests/cli")
"""Other folders that take long enough for a gate of their own, the longest first; one more takes
all the rest, new folders too.
"""
_GRACE_S = 30.0
_SAID_AGAIN = 60
"""Lines of what a failed gate printed that are shown again at the end, where whoever has only the
end of a log finds them.
"""


@dataclass(frozen=True)
class Gate:
    """A command that must end with exit code 0."""

    name: str
    command: tuple[str, ...]


def _pytest(name: str, *arguments: str) -> Gate:
    """A gate of tests, on a machine that has no network but loopback."""
    return Gate(
        f"pytest {name}",
        (
            PYTHON,
            "-m",
            "dev.tools.loopback",
            PYTHON,
            "-m",
            "pytest",
            "-rsEf",
            "-m",
            "not registry",
            *arguments,
        ),
    )


LINT = (
    Gate("ruff check", (PYTHON, "-m", "ruff", "check", ".")),
    Gate("ruff format", (PYTHON, "-m", "ruff", "format", "--check", ".")),
    Gate("mypy", (PYTHON, "-m", "mypy")),
    Gate("layers", (str(ROOT / ".venv" / "bin" / "lint-imports"), "--no-cache")),
    Gate(
        "mypy, TensorFlow",
        ("env", f"MYPYPATH={TENSORFLOW}", PYTHON, "-m", "mypy", *OPTIONS, TENSORFLOW),
    ),
)
TESTS = (
    Gate("environments", (PYTHON, "-m", "shoal.cli", "check")),
    _pytest("releases", RELEASES),
    *(_pytest(folder, folder) for folder in FOLDERS),
    _pytest("the rest", *(f"--ignore={folder}" for folder in (*TRAINING, *FOLDERS))),
    Gate(
        "pytest, package registry",
        (PYTHON, "-m", "pytest", "-rsEf", "-m", "registry", "local/tests/sagemaker"),
    ),
)
TRAINING_TESTS = tuple(_pytest(folder, folder, f"--ignore={RELEASES}") for folder in TRAINING)


def main(arguments: list[str]) -> int:
    """Runs the gates that `arguments` choose; returns 1 if any failed.

    All run, so that one report names every failure.
    """
    chosen = ((), LINT) if arguments == ["lint"] else (TRAINING_TESTS, LINT + TESTS)
    try:
        failed = asyncio.run(failures(*chosen, lanes=os.cpu_count() or 1))
    except KeyboardInterrupt:
        return 130
    for name, output in failed.items():
        print(
            f"== {name} failed; the last lines it printed:",
            *output.splitlines()[-_SAID_AGAIN:],
            sep="\n",
        )
    if failed:
        print(f"gates failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


async def failures(
    one_by_one: Sequence[Gate], others: Sequence[Gate], lanes: int
) -> dict[str, str]:
    """What each gate that failed printed, by name, after all have run: `one_by_one` in the first
    lane, which then helps the others.
    """
    first, rest, failed = deque(one_by_one), deque(others), dict[str, str]()
    await asyncio.gather(
        _lane((first, rest), failed), *(_lane((rest,), failed) for _ in range(lanes - 1))
    )
    return failed


async def _lane(queues: Sequence[deque[Gate]], failed: dict[str, str]) -> None:
    for queue in queues:
        while queue:
            gate = queue.popleft()
            passed, output = await _run(gate)
            if not passed:
                failed[gate.name] = output


async def _run(gate: Gate) -> tuple[bool, str]:
    """Whether it passed, and what it printed."""
    started_at = time.monotonic()
    print(f"== {gate.name} ...", flush=True)
    process = await asyncio.create_subprocess_exec(
        *gate.command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        printed, _ = await process.communicate()
    except (
        asyncio.CancelledError
    ):  # Ctrl-C, which the terminal told the gate too: it may clean up before it is killed
        await asyncio.wait_for(process.wait(), _GRACE_S)
        raise
    verdict = "passed" if process.returncode == 0 else f"FAILED (exit code {process.returncode})"
    output = printed.decode(errors="replace")
    print(f"{output}== {gate.name}: {verdict} in {time.monotonic() - started_at:.0f} s", flush=True)
    return process.returncode == 0, output


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
