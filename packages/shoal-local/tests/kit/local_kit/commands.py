"""Programs that tests run to their end."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


def ended(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program; return its exit code and what it printed. `options` are those of run()."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def printed(*command: str | Path, **options: Any) -> str:
    """Return what a program printed, which must succeed."""
    done = ended(*command, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
