"""Lock what a team's repository installs: requirements.in -> requirements.txt, with hashes.

`python -m shoal.verbs.init.locking [FOLDER]` does it again, as `make lock` there.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from shoal.errors import ShoalError, ToolMissingError
from shoal.processes import output_of
from shoal.top_level import TOP_LEVEL

SOURCE, LOCK = "requirements.in", "requirements.txt"
_WHEELS = re.compile(r"^--find-links .*\n", re.MULTILINE)
_TESTED = ("requirements.txt", "requirements-local.txt")
_PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
_TIMEOUT_S = 600.0


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


if __name__ == "__main__":
    try:
        lock(Path(*sys.argv[1:2]).resolve())
    except ShoalError as error:
        sys.exit(f"shoal: {error}")
