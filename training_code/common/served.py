"""Copies the code that serves beside a model, and names the errors of a damaged file."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path

UNREADABLE = (
    *(RuntimeError, OSError, EOFError, LookupError, AttributeError, TypeError, ValueError),
    pickle.UnpicklingError,
)
"""What torch and json raise for a file that is damaged, cut off, or something else."""
SERVED = ("__init__.py", "archive.py", "requests.py", "served.py")
"""The modules of this package that a server imports."""


def save_code(model_dir: Path, source_dir: Path, names: Sequence[str]) -> None:
    """Copy files of `source_dir`, and of this package what they need, to `model_dir`/code.

    The endpoint runs them; `shoal promote` compares them with the commit.
    """
    common = Path(__file__).parent
    files = {name: source_dir / name for name in names}
    for name, file in (files | {f"{common.name}/{each}": common / each for each in SERVED}).items():
        copy = model_dir / "code" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
