"""Turn requirements*.in into locked requirements*.txt.

Each of the three sets adds its packages to those of the sets before it.
dev/bench/requirements-peers.in stands apart: its packages have a virtual environment of their own.

Installs into temporary virtual environments and writes exact versions with the hashes of all their
files, which pip-tools asks the registry for, without the registry's address. The packages of the
benchmark's peers have no hashes: torch is any build of its version.

The versions of the local runtimes, the examples, SageMaker's SDKs and MLflow are chosen by people,
because some packages ask for what contradicts the others. Only their hashes are written.
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
CHOSEN = (
    "packages/shoal-local/src/shoal_local/runtimes/pytorch",
    "packages/shoal-local/src/shoal_local/runtimes/tensorflow",
    "packages/shoal-local/src/shoal_local/runtimes/sklearn",
    "examples/requirements",
    "packages/shoal/tests/goldens/requirements-sdk-v2",
    "packages/shoal/tests/goldens/requirements-sdk-v3",
    "packages/shoal/tests/goldens/requirements-mlflow",
    "dev/docs/requirements",
)
PIP_TOOLS = "pip-tools==7.6.2"

HASHES = r"""
import sys
from pip._internal.req.constructors import install_req_from_line
from piptools.repositories import PyPIRepository

repository = PyPIRepository([], cache_dir=sys.argv[1])
with repository.allow_all_wheels():
    for pin in sys.argv[2:]:
        hashes = sorted(repository.get_hashes(install_req_from_line(pin)))
        print(" \\\n    --hash=".join([pin, *hashes]))
"""


def main() -> None:
    """Write all lock files, or none if an installation fails."""
    locks = [
        *((name, with_hashes(text)) for name, text in _chain(SETS)),
        *(lock for name in APART for lock in _chain((name,))),
        *((name, with_hashes((ROOT / f"{name}.txt").read_text())) for name in CHOSEN),
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
        python = _new_environment(Path(name) / "venv")
        subprocess.run([python, "-m", "pip", "install", "--quiet", PIP_TOOLS], check=True)
        pins = [line.split()[0] for line in text.splitlines() if re.match(r"[^#\s].*==", line)]
        hashed = subprocess.run(
            [python, "-c", HASHES, str(Path(name) / "cache"), *pins],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    head = [line for line in text.splitlines() if line.startswith(("#", "-r "))]
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
