"""Lock what a team's repository installs: requirements.in -> requirements.txt, with hashes; and
bring along Shoal's wheels where no index has them.

`python -m shoal.verbs.init.locking [FOLDER]` does it again, as `make lock` there.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from shoal.errors import ShoalError, ToolMissingError, UsageError
from shoal.processes import output_of
from shoal.top_level import TOP_LEVEL

SOURCE, LOCK = "requirements.in", "requirements.txt"
_WHEELS = re.compile(r"^--find-links .*\n", re.MULTILINE)
_TESTED = ("requirements.txt", "requirements-local.txt")
_PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
_TIMEOUT_S = 600.0
WHEELS = "wheels"
"""The folder of a team's repository."""
_NAMES = ("shoal", "shoal_local")


def lock(folder: Path) -> None:
    """Write requirements.txt for Python 3.11 and later, with the hash of every file.

    The versions are those that Shoal was tested with, or else the ones before, where that fits.
    uv asks the indexes that pip is configured to use, and the place of Shoal's wheels that
    requirements.in names. Raises AnswerError where they do not have everything.
    """
    try:  # how packages are installed, which needs the standard library alone
        from shoal_local.runtimes.packages import uv_environment
    except ImportError as error:
        raise ToolMissingError(
            "shoal-local is missing, which has uv: install it with pip"
        ) from error
    options = "--quiet --universal --python-version 3.11 --index-strategy unsafe-best-match"
    plain = "--generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links"
    made = folder / ".shoal" / LOCK
    made.parent.mkdir(exist_ok=True)
    known: dict[str, str] = {}
    for file in (*(TOP_LEVEL / name for name in _TESTED), folder / LOCK):
        if file.is_file():
            pins = _PIN.findall(file.read_text(encoding="utf-8"))
            known = {name.lower(): version for name, version in pins} | known
    # uv prefers what its output file has
    made.write_text("".join(f"{name}=={version}\n" for name, version in known.items()))
    uv = (str(Path(sys.executable).with_name("uv")), "pip", "compile")
    command = (*uv, *options.split(), *plain.split(), SOURCE, "--output-file", str(made))
    output_of(command, folder, uv_environment(sys.executable), _TIMEOUT_S)
    wheels = "".join(_WHEELS.findall((folder / SOURCE).read_text(encoding="utf-8")))
    head = f"# Locked from {SOURCE} by `make lock`. Do not edit.\n{wheels}"
    (folder / LOCK).write_text(head + made.read_text(encoding="utf-8"), encoding="utf-8")
    made.unlink()


def folder_of(place: str, root: Path) -> Path | None:
    """Return the folder that wheels come from, or None for a page or an index.

    A relative place is in the repository at `root`. Raises UsageError where there is none.
    """
    if not place or "://" in place:
        return None
    if not (folder := root / place).is_dir():
        raise UsageError(f"--wheels {folder}: there is no such folder; give one, or a page's URL")
    return folder


def take_wheels(source: Path, root: Path, version: str) -> None:
    """Copy the wheels of a version into the repository at `root`; remove those of other versions.

    Raises UsageError where `source` lacks one; then nothing was changed.
    """
    target, files = root / WHEELS, [f"{name}-{version}-py3-none-any.whl" for name in _NAMES]
    if missing := [name for name in files if not (source / name).is_file()]:
        advice = "name the folder that has them with --wheels"
        raise UsageError(f"{source} has no {' and no '.join(missing)}; {advice}")
    target.mkdir(parents=True, exist_ok=True)
    for name in files:
        if (source / name).resolve() != (target / name).resolve():
            shutil.copyfile(source / name, target / name)
    for name in _NAMES:
        for file in target.glob(f"{name}-*.whl"):
            if file.name not in files:
                file.unlink()


if __name__ == "__main__":
    try:
        lock(Path(*sys.argv[1:2]).resolve())
    except ShoalError as error:
        sys.exit(f"shoal: {error}")
