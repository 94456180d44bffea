"""Turn requirements*.in into locked requirements*.txt.

Each of the three sets adds its packages to those of the sets before it.
dev/bench/requirements-peers.in stands apart: its packages have a virtual environment of their own.

Installs into temporary virtual environments and writes exact versions, without the registry's
address.
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


def main() -> None:
    """Write all lock files, or none if an installation fails."""
    locks = [*_chain(SETS), *(lock for name in APART for lock in _chain((name,)))]
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
