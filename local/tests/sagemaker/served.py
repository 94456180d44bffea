"""An emulator in a process of its own, for tests that need its environment or its death."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


@contextmanager
def served(state_dir: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run an emulator process, and terminate it at the end unless it has ended before."""
    command = [
        sys.executable,
        "-m",
        "shoal_local",
        "serve",
        "--port",
        "0",
        "--state-dir",
        str(state_dir),
        "--account",
        "111122223333",
    ]
    variables = os.environ | environment
    with subprocess.Popen(
        [*command, "--region", "us-east-1"], cwd=REPOSITORY, env=variables, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:  # otherwise Popen would wait for ever where the test has failed
            process.terminate()


def endpoint_of(process: subprocess.Popen[bytes]) -> str:
    return str(json.loads(process.stdout.readline())["endpoint"]) if process.stdout else ""
