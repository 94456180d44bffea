"""Build a runtime's virtual environment in the cache, once per lock file.

Scripts in a virtual environment carry its path, so it is built where it stays. Marker files say how
far it is, and a lock makes a second builder wait. What a builder left unfinished is removed and
built from the start. A change of a stand-in only installs that package again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

from shoal_local.errors import EmulatorError
from shoal_local.runtimes.catalog import (
    Runtime,
    base_marker,
    default_cache,
    is_generated,
    local_marker,
)

Progress = Callable[[str], None]
_TAIL_LINES = 15


def build(runtime: Runtime, cache: Path | None, progress: Progress) -> Path:
    """Return the interpreter of the runtime, and build it first where that is missing.

    Raises EmulatorError, which says what is missing, and what pip printed last.
    """
    cache = cache or default_cache()
    folder = runtime.folder(cache)
    if not runtime.is_built(cache):
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache / f".{runtime.name}.lock", progress):
            if not base_marker(folder).exists():
                _install_locked(runtime, folder, progress)
            if not runtime.is_built(cache):
                _install_local(runtime, folder, progress)
    progress(f"{runtime.name}: ready in {folder}")
    return runtime.python(cache)


@contextlib.contextmanager
def _alone(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is building; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install_locked(runtime: Runtime, folder: Path, progress: Progress) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    progress(f"{runtime.name}: making a virtual environment with Python {sys.version.split()[0]}")
    venv.create(folder, with_pip=True, symlinks=True)
    locked = sum(1 for line in runtime.lock.read_text().splitlines() if "==" in line)
    progress(
        f"{runtime.name}: installing {locked} locked packages (a framework among them: this takes a"
        " minute or two)"
    )
    # The lock is complete, and some of its packages ask for what contradicts it.
    _pip(folder, ["--require-hashes", "--no-deps", "--requirement", str(runtime.lock)], progress)
    if runtime.any_build:
        # With what the build needs: one for GPUs brings NVIDIA's libraries.
        _pip(folder, list(runtime.any_build), progress)
    base_marker(folder).touch()


def _install_local(runtime: Runtime, folder: Path, progress: Progress) -> None:
    version = runtime.local_version
    local_marker(folder).unlink(missing_ok=True)
    for package in runtime.stand_ins:
        if not package.is_dir():
            raise EmulatorError(
                f"The runtime {runtime.name} needs the folder {package.name}, which this checkout"
                " does not have."
            )
        progress(f"{runtime.name}: installing {package.name}")
        # setuptools writes next to the sources, so it gets a copy
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            copy = shutil.copytree(package, Path(temporary) / package.name, ignore=_generated)
            _pip(
                folder,
                ["--no-deps", "--force-reinstall", "--no-build-isolation", str(copy)],
                progress,
            )
    progress(f"{runtime.name}: checking that it imports")
    # without such a folder, AWS's toolkit creates a job's folders in the user's home
    with tempfile.TemporaryDirectory(dir=folder) as job:
        check = [str(folder / "bin" / "python"), "-c", runtime.check]
        _run(
            check,
            {**os.environ, "SAGEMAKER_BASE_DIR": job},
            f"The runtime {runtime.name} was installed but does not import",
        )
    partial = local_marker(folder).with_suffix(".partial")
    partial.write_text(version)
    partial.replace(local_marker(folder))


def _generated(_folder: str, entries: list[str]) -> list[str]:
    return [entry for entry in entries if is_generated(entry)]


def _pip(folder: Path, arguments: list[str], progress: Progress) -> None:
    command = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        *arguments,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        lines: list[str] = []
        for line in process.stdout or ():
            lines.append(line.rstrip())
            if line.startswith(("Collecting ", "Building ", "Installing ")):
                progress("  " + line.strip()[:160])
    if process.returncode != 0:
        raise EmulatorError(_why_pip_failed(lines))


def _why_pip_failed(lines: list[str]) -> str:
    reason = "pip could not install the runtime"
    if not (shutil.which("cc") or shutil.which("gcc")):
        reason = (
            "The runtime needs a C compiler, because sagemaker-training builds a small extension:"
            " install one (Debian and Ubuntu: apt-get install gcc python3-dev) and run this again"
        )
    return f"{reason}; pip's last lines:\n" + "\n".join(lines[-_TAIL_LINES:])


def _run(command: list[str], environment: dict[str, str], failure: str) -> None:
    process = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if process.returncode != 0:
        raise EmulatorError(f"{failure}:\n" + "\n".join(process.stderr.splitlines()[-_TAIL_LINES:]))
