"""The tiers of the gate: check, changed, test, all.

    .venv/bin/python -m dev.tools.gates TIER [further arguments for pytest]

check    what one runs while editing: linters, types, layers, environments, tests without AWS
changed  check, and the tests of what differs from main, with those of the layers above it
test     every behaviour once
all      everything: matrices, releases' demo, load, more fuzzing, chaos

The linters run next to pytest, which spreads its files over workers (pytest-xdist). No tier fails
for taking long; each ends with its slowest tests and with the time by folder.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from dev.tools.changed import tests_of_changes

ROOT = Path(__file__).resolve().parents[2]
PYTHON = str(ROOT / ".venv" / "bin" / "python")
TENSORFLOW = "training_code/mnist/tensorflow"
HOUSES = "training_code/houses/pytorch"
LANGUAGE = "training_code/language/pytorch"
_TENSORFLOW_CACHE = ("--cache-dir", ".mypy_cache/tensorflow")
WITHOUT_AWS = (
    "tests/config",
    "tests/docs",
    "tests/images",
    "tests/pipelines",
    "tests/test_readme.py",
    "tests/workflows",
)
"""Folders whose tests start neither shoal-local nor a training job."""
NEEDS_A_RUNTIME = "tests/pipelines/launch/test_toolkit.py"
WITH_PACKAGES = ("local/tests", "tests/workflows")
"""Folders with tests that install from the package registry."""
_WORKERS = str((os.cpu_count() or 1) + 1)
"""One more than cores: tests of the command line and of endpoints wait a lot."""
_KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""Tests start hundreds of processes that import the same modules."""
_GRACE_S = 30.0
_MAX_LINES_AGAIN = 60
"""Lines of a failed gate that are repeated at the end, where a log is read first."""


@dataclass(frozen=True)
class Gate:
    """A command that must end with exit code 0."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    shows_progress: bool = False
    """Print each line as it comes; other gates print all of theirs when they are done."""


LINT = (
    Gate("ruff check", (PYTHON, "-m", "ruff", "check", ".")),
    Gate("ruff format", (PYTHON, "-m", "ruff", "format", "--check", ".")),
    Gate("layers", (str(ROOT / ".venv" / "bin" / "lint-imports"), "--no-cache")),
    Gate("environments", (PYTHON, "-m", "shoal.cli", "check")),
    Gate("mypy", (PYTHON, "-m", "mypy")),
    Gate(
        "mypy, TensorFlow",  # its modules have the names of PyTorch's
        # tf.function has no types here, where TensorFlow is not installed
        (PYTHON, "-m", "mypy", "--allow-untyped-decorators", *_TENSORFLOW_CACHE, TENSORFLOW),
        {"MYPYPATH": TENSORFLOW},
    ),
    Gate(
        "mypy, houses",  # likewise
        (PYTHON, "-m", "mypy", "--cache-dir", ".mypy_cache/houses", HOUSES),
        {"MYPYPATH": HOUSES},
    ),
    Gate(
        "mypy, language",
        (PYTHON, "-m", "mypy", "--cache-dir", ".mypy_cache/language", LANGUAGE),
        {"MYPYPATH": LANGUAGE},
    ),
)
PAGES = Gate("pages", ("make", "docs", f"PYTHON={PYTHON}"))
CHAOS = Gate("chaos", (PYTHON, "-m", "dev.tools.loopback", PYTHON, "-m", "tests.chaos"))


def pytest_gate(marks: str, *arguments: str, environment: dict[str, str] | None = None) -> Gate:
    """Return a run of tests on a machine that has no network but loopback."""
    spread = ("-n", _WORKERS, "--dist", "loadfile", "--no-loadscope-reorder")
    options = ("-p", "dev.tools.gate_report", "-rsEf", "--durations=20", "-m", marks)
    command = (PYTHON, "-m", "dev.tools.loopback", PYTHON, "-m", "pytest", *spread, *options)
    return Gate("pytest", (*command, *arguments), environment or {}, shows_progress=True)


def registry_gate(marks: str) -> Gate:
    """Return a run of the tests that install packages, on a machine with a network."""
    command = (PYTHON, "-m", "pytest", "-rsEf", "-m", marks, *WITH_PACKAGES)
    return Gate("pytest, package registry", command)


def gates_of(tier: str, arguments: Sequence[str]) -> list[Sequence[Gate]]:
    """Return the lanes of a tier: what a lane holds runs one after the other."""
    daily = "not nightly and not registry"
    alone = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("test_*.py"))
    if tier == "check":
        without = f"--ignore={NEEDS_A_RUNTIME}"
        return [LINT, (pytest_gate(daily, *WITHOUT_AWS, *alone, without, *arguments),)]
    if tier == "changed":
        folders = tests_of_changes(ROOT)
        print(f"tests of what changed: {' '.join(folders) or 'none'}", flush=True)
        return [LINT, (pytest_gate(daily, *folders, *arguments),) if folders else ()]
    if tier == "test":
        registry = registry_gate("registry and not nightly")
        return [(*LINT, registry, PAGES), (pytest_gate(daily, *arguments),)]
    more = {"SHOAL_FUZZ": "300"}
    everything = pytest_gate("not registry", *arguments, environment=more)
    return [(*LINT, registry_gate("registry"), PAGES), (everything, CHAOS)]


def main(arguments: list[str]) -> int:
    """Run a tier; return 1 if a gate failed. All run, so that one report names every failure."""
    tiers = ("check", "changed", "test", "all")
    if not arguments or arguments[0] not in tiers:
        print(f"usage: gates.py {'|'.join(tiers)} [arguments for pytest]", file=sys.stderr)
        return 2
    started_at = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="shoal-", ignore_cleanup_errors=True) as folder:
            # what programs leave there is gone at the end
            lanes = gates_of(arguments[0], arguments[1:])
            failed = asyncio.run(failures(lanes, {"TMPDIR": folder}))
    except KeyboardInterrupt:
        return 130
    for name, output in failed.items():
        last = output.splitlines()[-_MAX_LINES_AGAIN:]
        print(f"== {name} failed; the last lines it printed:", *last, sep="\n")
    verdict = f"failed: {', '.join(failed)}" if failed else "passed"
    minutes, seconds = divmod(round(time.monotonic() - started_at), 60)
    print(f"make {_target(arguments[0])} {verdict}, {minutes} min {seconds} s", flush=True)
    return 1 if failed else 0


def _target(tier: str) -> str:
    return {"changed": "test-changed", "all": "test-all"}.get(tier, tier)


async def failures(
    lanes: Iterable[Sequence[Gate]], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Run the lanes at the same time; return what each gate that failed printed, by name."""
    failed: dict[str, str] = {}
    variables = os.environ | _KEEP_BYTECODE | dict(environment or {})
    await asyncio.gather(*(_run_lane(lane, variables, failed) for lane in lanes))
    return failed


async def _run_lane(
    lane: Sequence[Gate], variables: Mapping[str, str], failed: dict[str, str]
) -> None:
    for gate in lane:
        passed, output = await _run(gate, variables)
        if not passed:
            failed[gate.name] = output


async def _run(gate: Gate, variables: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether the gate passed, and what it printed."""
    started_at = time.monotonic()
    print(f"== {gate.name} ...", flush=True)
    process = await asyncio.create_subprocess_exec(
        *gate.command,
        cwd=ROOT,
        env={**variables, **gate.environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    lines: list[str] = []
    try:
        async for line in cast(asyncio.StreamReader, process.stdout):
            lines.append(line.decode(errors="replace"))
            if gate.shows_progress:
                print(lines[-1], end="", flush=True)
        await process.wait()
    except asyncio.CancelledError:
        # The terminal sent Ctrl-C to the gate as well: it may clean up before it is killed.
        await asyncio.wait_for(process.wait(), _GRACE_S)
        raise
    verdict = "passed" if process.returncode == 0 else f"FAILED (exit code {process.returncode})"
    output = "".join(lines)
    shown = "" if gate.shows_progress else output
    print(f"{shown}== {gate.name}: {verdict} in {time.monotonic() - started_at:.0f} s", flush=True)
    return process.returncode == 0, output


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
