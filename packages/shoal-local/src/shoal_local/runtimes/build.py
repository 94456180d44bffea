"""Build a runtime's virtual environment in the cache, once per lock file.

Scripts in a virtual environment carry its path, so it is built where it stays. Marker files say how
far it is, and a lock makes a second builder wait. What a builder left unfinished is removed and
built from the start. A change of a stand-in only installs that package again.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

from shoal_local.errors import EmulatorError
from shoal_local.runtimes.catalog import (
    BASE_MARKER,
    LOCAL_MARKER,
    Runtime,
    default_cache,
    is_generated,
    runtimes,
)
from shoal_local.runtimes.packages import InstallError, install

Progress = Callable[[str], None]
_TAIL_LINES = 15


def build(runtime: Runtime, cache: Path | None, progress: Progress) -> Path:
    """Return the interpreter of the runtime, and build it first where that is missing.

    Raises EmulatorError, which says what is missing, and what uv printed last.
    """
    cache = cache or default_cache()
    folder = runtime.folder(cache)
    if not runtime.is_built(cache):
        cache.mkdir(parents=True, exist_ok=True)
        with _alone(cache / f".{runtime.name}.lock", progress):
            if not (folder / BASE_MARKER).exists():
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
        f"{runtime.name}: installing {locked} locked packages and a framework (several hundred MB;"
        " a minute or two)"
    )
    # The lock is complete, and some of its packages ask for what contradicts it.
    locked_options = ["--require-hashes", "--no-deps", "--requirement", str(runtime.lock)]
    _install(folder, locked_options, progress)
    if runtime.any_build:
        # With what the build needs: one for GPUs brings NVIDIA's libraries.
        _install(folder, list(runtime.any_build), progress)
    (folder / BASE_MARKER).touch()


def _install_local(runtime: Runtime, folder: Path, progress: Progress) -> None:
    version = runtime.local_version
    (folder / LOCAL_MARKER).unlink(missing_ok=True)
    for package in runtime.stand_ins:
        if not package.is_dir():
            raise EmulatorError(
                f"The runtime {runtime.name} needs the folder {package.name}, which this checkout"
                " does not have."
            )
        progress(f"{runtime.name}: installing {package.name}")
        # setuptools writes next to the sources, so it gets a copy
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            copy = shutil.copytree(
                package,
                Path(temporary) / package.name,
                ignore=lambda _folder, names: [each for each in names if is_generated(each)],
            )
            options = ["--no-deps", "--reinstall", "--no-build-isolation", "--no-cache"]
            _install(folder, [*options, str(copy)], progress)
    progress(f"{runtime.name}: checking that it imports")
    # without such a folder, AWS's toolkit creates a job's folders in the user's home
    with tempfile.TemporaryDirectory(dir=folder) as job:
        check = [str(folder / "bin" / "python"), "-c", runtime.check]
        # Jobs write no bytecode: what they import is compiled here, and nothing else.
        variables = {**os.environ, "SAGEMAKER_BASE_DIR": job, "PYTHONDONTWRITEBYTECODE": ""}
        process = subprocess.run(
            check, env=variables, capture_output=True, text=True, errors="replace", check=False
        )
    if process.returncode != 0:
        raise EmulatorError(
            f"The runtime {runtime.name} was installed but does not import:\n"
            + "\n".join(process.stderr.splitlines()[-_TAIL_LINES:])
        )
    partial = folder / f"{LOCAL_MARKER}.partial"
    partial.write_text(version)
    partial.replace(folder / LOCAL_MARKER)


def _install(folder: Path, arguments: list[str], progress: Progress) -> None:
    try:
        install(folder / "bin" / "python", arguments, lambda line: progress(f"  {line[:160]}"))
    except InstallError as error:
        raise EmulatorError(_why_it_failed(str(error))) from error


def _why_it_failed(output: str) -> str:
    reason = "The runtime's packages could not be installed"
    if not (shutil.which("cc") or shutil.which("gcc")):
        reason = (
            "The runtime needs a C compiler, because sagemaker-training builds a small extension:"
            " install one (Debian and Ubuntu: apt-get install gcc python3-dev) and run this again"
        )
    return f"{reason}; the last lines of uv:\n{output}"


def build_chosen(name: str | None) -> None:
    """Build the runtimes that `chosen` returns, and print what happens."""
    began_at = time.monotonic()

    def progress(line: str) -> None:
        print(f"[{time.monotonic() - began_at:5.1f} s] {line}", flush=True)

    for runtime in chosen(name):
        build(runtime, None, progress)


def chosen(name: str | None) -> list[Runtime]:
    """Return the runtime `name`; without a name, every runtime that is not built on first use."""
    catalog = runtimes()
    if name is not None and name not in catalog:
        raise EmulatorError(f"There is no runtime {name!r}; there are: {', '.join(catalog)}.")
    if name:
        return [catalog[name]]
    return [runtime for runtime in catalog.values() if not runtime.on_first_use]
