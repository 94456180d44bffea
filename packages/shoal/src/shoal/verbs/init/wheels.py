"""Shoal's wheels in a team's repository: where no index has them, it brings them along."""

from __future__ import annotations

import shutil
from pathlib import Path

from shoal.errors import UsageError

WHEELS = "wheels"
"""The folder of a team's repository."""
_NAMES = ("shoal", "shoal_local")


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
