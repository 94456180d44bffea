"""A workload: what is trained, independent of any account. One folder in `training_code/`, with a
`workload.yaml`.

The docstrings of the keys are the descriptions in training_code/schema.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from config.base import Settings, Slug
from config.errors import ConfigError, Problem, shorten
from config.pydantic_errors import problems_of
from config.smoke_test import SmokeTest
from config.smoke_test_rules import problems_of_smoke_test
from config.yaml_file import parse_file

FOLDER = "training_code"
FILE = "workload.yaml"


class Workload(Settings):
    """One workload: one folder in `training_code/`."""

    name: Slug
    """Name of the workload; must equal the folder's name."""
    smoke_test: SmokeTest
    """What is asked of an endpoint that serves the model, before anybody relies on it."""


def workload_file(name: str) -> str:
    """Return the path of the file of workload `name`, relative to the repository root."""
    return f"{FOLDER}/{name}/{FILE}"


def workload_folder(name: str, root: Path) -> Path:
    """Return the folder of workload `name` in the repository at `root`."""
    return root / FOLDER / name


def workload_names(root: Path) -> list[str]:
    """Return the names of the workloads under `root`, sorted."""
    return sorted(path.parent.name for path in (root / FOLDER).glob(f"*/{FILE}"))


def require_workload(name: str, root: Path) -> None:
    """Raise ConfigError if there is no workload `name`."""
    file = workload_file(name)
    if not (root / file).is_file():
        message = (
            f"there is no workload {shorten(name)}; there are:"
            f" {', '.join(workload_names(root)) or 'none'}"
        )
        raise ConfigError(file, [Problem("", message, "name one of them, or write this file")])


def load_workload(name: str, root: Path) -> Workload:
    """Return the workload `name` of the repository at `root`.

    Raises ConfigError with every problem of its file, also when there is no such workload.
    """
    require_workload(name, root)
    file = workload_file(name)
    parsed = parse_file(root / file, file)
    document = parsed.document
    if document.data is not None and not isinstance(document.data, dict):
        mistake = Problem(
            "", "a workload file is a mapping of keys to values", "start with `name:`"
        )
        raise ConfigError(file, [mistake])
    problems = [*document.problems]
    workload = None
    if document.data is not None or not problems:
        workload, mistakes = _typed(document.data or {})
        problems += mistakes
    if workload:
        problems += _rule_problems(workload, name, workload_folder(name, root))
    if workload is None or problems:
        raise ConfigError(file, problems, parsed.places())
    return workload


def _typed(data: dict[str, Any]) -> tuple[Workload | None, list[Problem]]:
    """Check the types without conversion, as `config.loader` does."""
    try:
        return Workload.model_validate_json(json.dumps(data), strict=True), []
    except ValidationError as error:
        return None, problems_of(error, data, Workload)


def _rule_problems(workload: Workload, name: str, folder: Path) -> list[Problem]:
    problems = problems_of_smoke_test(workload.smoke_test, folder)
    if workload.name != name:
        message = f"differs from the folder's name, {name}"
        problems.insert(0, Problem("name", message, "rename one of the two", workload.name))
    return problems
