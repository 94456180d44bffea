"""Turn requirements*.in into locked requirements*.txt.

Each of the three sets adds its packages to those of the sets before it.
dev/bench/requirements-peers.in stands apart: its packages have a virtual environment of their own.

Installs into temporary virtual environments and writes exact versions with the hashes of all their
files, which pip-tools asks the registry for, without the registry's address. The packages of the
benchmark's peers have no hashes: torch is any build of its version.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETS = ("requirements", "requirements-local", "requirements-test")
APART = ("dev/bench/requirements-peers",)
PIP_TOOLS = "pip-tools==7.6.2"


def main() -> None:
    """Write all lock files, or none if an installation fails."""
    locks = [
        *((name, with_hashes(text)) for name, text in _chain(SETS)),
        *(lock for name in APART for lock in _chain((name,))),
    ]
    for name, text in locks:
        (ROOT / f"{name}.txt").write_text(text, encoding="utf-8")


def _chain(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the texts of the lock files of sets that build upon each other."""
    with tempfile.TemporaryDirectory(prefix="shoal-lock-") as folder:
        python = _new_environment(Path(folder))
        previous: set[str] = set()
        locks = []
        for name in names:
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "-r", ROOT / f"{name}.in"], check=True
            )
            installed = _frozen(python)
            locks.append((name, sorted(installed - previous, key=str.lower)))
            previous = installed
    return [
        (name, _lock_text(name, lines, names[:index])) for index, (name, lines) in enumerate(locks)
    ]


def with_hashes(text: str) -> str:
    """Return the text of a lock file with the hashes of every package's files."""
    with tempfile.TemporaryDirectory(prefix="shoal-hashes-") as name:
        folder = Path(name)
        python = _new_environment(folder / "venv")
        subprocess.run([python, "-m", "pip", "install", "--quiet", PIP_TOOLS], check=True)
        pins = [line for line in text.splitlines() if "==" in line]
        (folder / "pins.in").write_text("\n".join(pins) + "\n", encoding="utf-8")
        no = ("annotate", "header", "emit-index-url", "emit-find-links", "emit-trusted-host")
        options = (
            *("--quiet", "--generate-hashes", "--allow-unsafe", "--strip-extras"),
            *(f"--no-{each}" for each in no),
            *("--pip-args=--no-deps", "--output-file", "pins.txt", "pins.in"),
        )
        command = [python, "-m", "piptools", "compile", *options]
        subprocess.run(command, check=True, cwd=folder)
        hashed = (folder / "pins.txt").read_text(encoding="utf-8")
    head = [line for line in text.splitlines() if "==" not in line]
    return "\n".join([*head, hashed.strip()]) + "\n"


def _new_environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return str(folder / "bin" / "python")


def _frozen(python: str) -> set[str]:
    output = subprocess.run(
        [python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True
    ).stdout
    return {re.sub(r"\+cpu$", "", line) for line in output.splitlines() if "==" in line}


def _lock_text(name: str, lines: list[str], earlier: tuple[str, ...]) -> str:
    head = [
        f"# Locked from {name}.in by `make lock`. Do not edit.",
        *(f"-r {other}.txt" for other in earlier[-1:]),
    ]
    return "\n".join([*head, *lines]) + "\n"


if __name__ == "__main__":
    main()
