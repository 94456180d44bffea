"""Make a team's repository: all of it, checked, or nothing."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path

from shoal.errors import AnswerError, UsageError
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_workloads
from shoal.verbs.init.answers import Answers
from shoal.verbs.init.locking import lock
from shoal.verbs.init.rendering import render
from shoal.verbs.init.wheels import WHEELS, folder_of, take_wheels

_ALLOWED = {".git", ".venv"}
"""What may be in the folder before."""


def init(answers: Answers, folder: Path) -> AnswerError | None:
    """Write the repository that the answers describe into `folder`, which is new or empty.

    Wheels that come from a folder are copied: the repository installs on any machine. Returns why
    requirements.txt could not be locked, or None where it could; the rest is there.

    Raises UsageError, ToolMissingError and ConfigError; then nothing was written.
    """
    require_empty(folder)
    source = folder_of(answers.wheels, Path())
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".shoal-init-", dir=folder.parent) as staged:
            made, problem = Path(staged, folder.name), None
            if source:
                take_wheels(source, made, version("shoal"))
                answers = answers.model_copy(update={"wheels": WHEELS})
            render(answers, made)
            for name in answers.environments:
                for workload in load_workloads(name, made):
                    check(workload, made)
            try:
                lock(made)
            except AnswerError as error:
                problem = error
            folder.mkdir(exist_ok=True)  # it may be the working directory: it stays the same one
            for each in sorted(made.iterdir()):
                each.rename(folder / each.name)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from error
    return problem


def require_empty(folder: Path) -> None:
    """Raise UsageError for a folder that is none, or that has files."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give a new one")
    files = {each.name for each in folder.iterdir()} - _ALLOWED if folder.is_dir() else set()
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise UsageError(f"{folder} is not empty ({min(files)}{more}); give a new folder")
