"""An environment file in, a frozen `Environment` out, or one `ConfigError` with every problem of the file, one line each.

Three readings, each reporting all it finds: the YAML text (`config.document`), the types and limits (`config.settings`), and the
rules between keys (`config.rules`), which run on whatever part of the file was right.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from config import document
from config.errors import ConfigError, Problem, line_of, shorten
from config.mistakes import problems_of, without
from config.rules import problems_between
from config.settings import Environment

FOLDER = "environments"


def environment_file(name: str) -> str:
    """Path of the file of environment `name`, relative to the repository root."""
    return f"{FOLDER}/{name}.yaml"


def environment_names(root: Path) -> list[str]:
    """Names of the environments under `root`, sorted."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.yaml"))


def load_environment(name: str, root: Path) -> Environment:
    """The environment `name` of the repository at `root`. Raises ConfigError, also when there is no such environment."""
    path = root / environment_file(name)
    if not path.is_file():
        known = environment_names(root)
        message = f"there is no environment {shorten(name)}; there are: {', '.join(known) or 'none'}"
        raise ConfigError(environment_file(name), [Problem("", message, "name one of them, or write this file")])
    return load(path, shown_as=environment_file(name))


def load(path: Path, shown_as: str | None = None) -> Environment:
    """The environment in the file `path`. Raises ConfigError; its lines call the file `shown_as`, by default its path."""
    file = shown_as or str(path)
    parsed = document.parse(_read(path, file))
    if parsed.problems and parsed.data is None:
        raise ConfigError(file, parsed.problems, parsed.lines)
    if not isinstance(parsed.data, dict):
        message = "an environment file is a mapping of keys to values"
        raise ConfigError(file, [Problem("", message, "start with `name:`, `account:` and `region:`; see environments/dev.yaml")])
    environment, problems = _validate(parsed.data, path.stem)
    if environment is None or problems or parsed.problems:
        in_file_order = sorted(parsed.problems + problems, key=lambda problem: line_of(problem.key, parsed.lines) or 0)
        raise ConfigError(file, in_file_order, parsed.lines)
    return environment


def _read(path: Path, file: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(file, [Problem("", f"cannot be read: {error.strerror}", "check the path")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(file, [Problem("", f"is not UTF-8 text: {error.reason}", "save it as UTF-8")]) from error


def _validate(data: dict[str, Any], stem: str) -> tuple[Environment | None, list[Problem]]:
    """The environment, if types and limits are right, and all problems; rules are checked on the part that is right."""
    environment, problems, wrong = _typed(data)
    if environment is None:
        substitutes = {"name": stem, "account": "111122223333"}  # so that a missing name does not hide the other rules' findings
        rest, _, _ = _typed(substitutes | without(data, wrong))
        found = problems_between(rest, stem) if rest else []
        return None, problems + [problem for problem in found if not _is_about(problem, wrong)]
    return environment, problems_between(environment, stem)


def _typed(data: dict[str, Any]) -> tuple[Environment | None, list[Problem], list[str]]:
    """Types are checked without conversion: `"2"` is not a number, and an account without quotes is not text."""
    try:
        return Environment.model_validate_json(json.dumps(data), strict=True), [], []
    except ValidationError as error:
        problems = problems_of(error, data)
        return None, problems, [problem.key for problem in problems]


def _is_about(problem: Problem, wrong: list[str]) -> bool:
    """Whether a rule's finding rests on a key that is itself wrong."""
    return any(key == bad or key.startswith(f"{bad}.") for key in (problem.key, *problem.related) for bad in wrong)
