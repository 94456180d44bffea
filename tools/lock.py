"""Turns the three requirements*.in into locked requirements*.txt: each adds, to the ones before it, what it needs besides.

Installs into throw-away virtual environments and writes what came out, exact versions, without the registry's address.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETS = ("requirements", "requirements-local", "requirements-test")


def main() -> None:
    """Writes all three lock files, or none when an installation fails."""
    with tempfile.TemporaryDirectory(prefix="shoal-lock-") as folder:
        python = _new_environment(Path(folder))
        before: set[str] = set()
        locks = []
        for name in SETS:
            subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", ROOT / f"{name}.in"], check=True)
            now = _frozen(python)
            locks.append((name, sorted(now - before, key=str.lower)))
            before = now
    for index, (name, lines) in enumerate(locks):
        (ROOT / f"{name}.txt").write_text(_lock_text(name, lines, SETS[:index]), encoding="utf-8")


def _new_environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return str(folder / "bin" / "python")


def _frozen(python: str) -> set[str]:
    output = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    return {re.sub(r"\+cpu$", "", line) for line in output.splitlines() if "==" in line}


def _lock_text(name: str, lines: list[str], earlier: tuple[str, ...]) -> str:
    head = [f"# Locked from {name}.in by `make lock`. Do not edit.", *(f"-r {other}.txt" for other in earlier[-1:])]
    return "\n".join([*head, *lines]) + "\n"


if __name__ == "__main__":
    main()
