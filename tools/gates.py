"""Runs every gate in order, shows how long each took, and fails if any failed.

.venv/bin/python tools/gates.py [lint]
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
TENSORFLOW = "training_code/tensorflow"
OPTIONS = ("--allow-untyped-decorators", "--cache-dir", ".mypy_cache/tensorflow")  # tf.function, where TensorFlow is not installed
LINT: tuple[tuple[str, list[str]], ...] = (
    ("ruff check", [PYTHON, "-m", "ruff", "check", "."]),
    ("ruff format", [PYTHON, "-m", "ruff", "format", "--check", "."]),
    ("mypy", [PYTHON, "-m", "mypy"]),
    ("mypy, TensorFlow", ["env", f"MYPYPATH={TENSORFLOW}", PYTHON, "-m", "mypy", *OPTIONS, TENSORFLOW]),
)
TESTS: tuple[tuple[str, list[str]], ...] = (
    ("environments", [PYTHON, "-m", "cli", "check"]),
    ("pytest, loopback only", [PYTHON, "-m", "tools.loopback", PYTHON, "-m", "pytest", "-rs", "-m", "not registry"]),
    ("pytest, package registry", [PYTHON, "-m", "pytest", "-rs", "-m", "registry", "tests/emulator/sagemaker"]),
)


def main(arguments: list[str]) -> int:
    """Runs the gates that `arguments` choose; returns 1 if any failed. All run, so that one report names every failure."""
    gates = LINT if arguments == ["lint"] else LINT + TESTS
    failed = [name for name, command in gates if not _passes(name, command)]
    if failed:
        print(f"gates failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


def _passes(name: str, command: list[str]) -> bool:
    started_at = time.monotonic()
    print(f"== {name}", flush=True)
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(f"== {name}: {'passed' if code == 0 else f'FAILED (exit code {code})'} in {time.monotonic() - started_at:.0f} s", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
