"""The tiers of the gate: check, test, all.

    .venv/bin/python -m dev.tools.gates TIER [further arguments for pytest]

check    what one runs while editing: linters, types, layers, environments, tests without AWS
test     every behaviour once
all      everything: matrices, releases' demo, load, more fuzzing, chaos

A fork without Shoal's own workloads has the gate of what a team owns: linters, types, layers,
environments and `tests`. The tests in packages/ train those workloads; they are Shoal's.

The linters run next to pytest, which spreads its files over workers (pytest-xdist). No tier fails
for taking long; each ends with its slowest tests.
"""

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

ROOT = Path(__file__).resolve().parents[2]
PYTHON = str(ROOT / ".venv" / "bin" / "python")
SHIPPED = ("mnist", "language")
"""Shoal's own workloads."""
TRAINING_CODE = ("mnist/pytorch", "mnist/tensorflow", "language/pytorch")
"""Folders whose modules have the same names, so that each is checked by itself."""
SHOAL, SHOAL_LOCAL, STAND_INS = "packages/shoal", "packages/shoal-local", "packages/stand-ins"
PACKAGES = (SHOAL, SHOAL_LOCAL, STAND_INS, ".")
"""Where tests run, each with the settings of its own pyproject.toml; "." has the team's."""
WITHOUT_AWS = {
    SHOAL: (
        "tests/settings",
        "tests/docs",
        "tests/images",
        "tests/pipelines",
        "tests/workflows",
        "tests/test_architecture.py",
        "--ignore=tests/pipelines/launch/test_toolkit.py",
    )
}
"""Tests that start neither shoal-local nor a training job."""
WITH_PACKAGES = {
    SHOAL_LOCAL: ("tests",),
    SHOAL: (
        "tests/end_to_end/test_scoring.py",
        "tests/test_wheel.py",
        "tests/verbs/test_three_versions.py",
        "tests/workflows",
    ),
}
"""Tests that install from the package registry."""
_WORKERS = str((os.cpu_count() or 1) + 2)
"""Two more than cores: tests of the command line and of endpoints wait for half of their time."""
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
    folder: str = "."


LINT = (
    Gate("ruff check", (PYTHON, "-m", "ruff", "check", ".")),
    Gate("ruff format", (PYTHON, "-m", "ruff", "format", "--check", ".")),
    Gate("layers", (str(ROOT / ".venv" / "bin" / "lint-imports"), "--no-cache")),
    Gate("environments", (PYTHON, "-m", "shoal.cli", "check")),
)
TYPES = (PYTHON, "-m", "mypy")
TYPES_OF_TESTS = tuple(  # from the root, so that all share one cache of the CDK's types
    Gate(
        f"mypy, tests of {package}",
        (*TYPES, "--config-file", f"{package}/pyproject.toml", f"{package}/tests"),
    )
    for package in (SHOAL, SHOAL_LOCAL, STAND_INS)
)
PAGES = Gate("pages", ("make", "docs", f"PYTHON={PYTHON}"))
CHAOS = Gate(
    "chaos",
    (PYTHON, "-m", "dev.tools.loopback", PYTHON, "-m", "tests.chaos"),
    {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / SHOAL_LOCAL / "tests" / "kit")))},
    folder=SHOAL,
)


def training_types(name: str) -> Gate:
    """Return the check of one folder's types, which needs a cache of its own."""
    # tf.function has no types here, where TensorFlow is not installed
    options = ("--allow-untyped-decorators", "--cache-dir", f".mypy_cache/{name}")
    folder = f"training_code/{name}"
    paths = {"MYPYPATH": f"{folder}:training_code"}  # the second has the package `common`
    return Gate(f"mypy, {name}", (*TYPES, *options, folder), paths)


def pytest_gate(
    package: str, marks: str, *arguments: str, environment: dict[str, str] | None = None
) -> Gate:
    """Return a run of tests of one package, on a machine that has no network but loopback."""
    spread = ("-n", _WORKERS, "--dist", "loadfile", "--no-loadscope-reorder")
    options = ("-p", "dev.tools.gate_report", "-rsEf", "--durations=10", "-m", marks)
    command = (PYTHON, "-m", "dev.tools.loopback", PYTHON, "-m", "pytest", *spread, *options)
    variables = {"PYTHONPATH": str(ROOT)} | (environment or {})
    name = "pytest" if package == "." else f"pytest of {package}"
    return Gate(name, (*command, *arguments), variables, shows_progress=True, folder=package)


def registry_gates(marks: str, packages: Iterable[str] = WITH_PACKAGES) -> tuple[Gate, ...]:
    """Return the runs of the tests that install packages, on a machine with a network."""
    command = (PYTHON, "-m", "pytest", "-rsEf", "-m", marks)
    return tuple(
        Gate(f"pytest of {each}, package registry", (*command, *WITH_PACKAGES[each]), folder=each)
        for each in packages
    )


def gates_of(tier: str, arguments: Sequence[str]) -> list[Sequence[Gate]]:
    """Return the lanes of a tier: what a lane holds runs one after the other."""
    daily = "not nightly and not registry"
    if not all((ROOT / "training_code" / name).is_dir() for name in SHIPPED):
        print(f"not tested here: packages/, whose tests train {', '.join(SHIPPED)}", flush=True)
        types = Gate("mypy", (*TYPES, "app.py", "pipelines", "stacks", "tests"))
        quick = ("-k", "not local_run") if tier == "check" else ()
        return [(*LINT, types), [pytest_gate(".", daily, *quick, *arguments)]]
    lint = (*LINT, Gate("mypy", TYPES), *TYPES_OF_TESTS, *map(training_types, TRAINING_CODE))
    if tier == "check":
        return [lint, [pytest_gate(each, daily, *tests) for each, tests in WITHOUT_AWS.items()]]
    if tier == "test":
        # those of the library are nightly
        registry = registry_gates("registry and not nightly", [SHOAL_LOCAL])
        # packages/shoal runs the same demo with policies enforced
        again = {".": ("-k", "not local_run")}
        return [
            (*lint, PAGES, *registry),
            [pytest_gate(each, daily, *again.get(each, ()), *arguments) for each in PACKAGES],
        ]
    more = {"SHOAL_FUZZ": "300"}
    everything = [
        pytest_gate(each, "not registry", *arguments, environment=more) for each in PACKAGES
    ]
    return [(*lint, PAGES, *registry_gates("registry")), (*everything, CHAOS)]


def main(arguments: list[str]) -> int:
    """Run a tier; return 1 if a gate failed. All run, so that one report names every failure."""
    tiers = ("check", "test", "all")
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
    target = "test-all" if arguments[0] == "all" else arguments[0]
    print(f"make {target} {verdict}, {minutes} min {seconds} s", flush=True)
    return 1 if failed else 0


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
        cwd=ROOT / gate.folder,
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
