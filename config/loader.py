"""Load an environment file, with an overlay if there is one, as a frozen `Environment`.

Three readings each report all that they find: the YAML text (`config.yaml_lines`), the types and
limits (`config.settings`), and the rules between keys (`config.rules`), which run on the part of
the file that is right. One `ConfigError` has every problem.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from config.errors import ConfigError, Problem, place_of, shorten
from config.pydantic_errors import problems_of, without_keys
from config.rules import problems_between
from config.settings import Environment
from config.workload import beneath, misfits, unknown_workload
from config.yaml_file import ParsedFile, parse_file

FOLDER = "environments"
OVERLAYS = "strategies"


def environment_file(name: str) -> str:
    """Return the path of the file of environment `name`, relative to the repository root."""
    return f"{FOLDER}/{name}.yaml"


def strategy_file(name: str) -> str:
    """Return the path of the overlay `name`, relative to the repository root."""
    return f"{FOLDER}/{OVERLAYS}/{name}.yaml"


def environment_names(root: Path) -> list[str]:
    """Return the names of the environments under `root`, sorted."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.yaml"))


def strategy_names(root: Path) -> list[str]:
    """Return the names of the overlays under `root`, sorted."""
    return sorted(path.stem for path in (root / FOLDER / OVERLAYS).glob("*.yaml"))


def load_environment(name: str, root: Path, strategy: str | None = None) -> Environment:
    """Return the environment `name` of the repository at `root`, under the overlay `strategy`.

    Raises ConfigError, also when there is no such environment or overlay.
    """
    sources = _sources(name, root, strategy)
    environment, names = _environment(sources, name, root), environment_names(root)
    if environment.promoted_from not in {None, *names}:
        message = f"there is no such environment; there are: {', '.join(names)}"
        problem = Problem(
            "promoted_from",
            message,
            "name the one before this, or remove the key",
            environment.promoted_from,
        )
        raise ConfigError(sources[0].file, [problem], places(name, root, strategy))
    return environment


def load(path: Path, shown_as: str | None = None) -> Environment:
    """Return the environment in the file `path`.

    Raises ConfigError, whose lines call the file `shown_as`, by default its path.
    """
    return _environment([_Source(shown_as or str(path), path)], path.stem)


def places(name: str, root: Path, strategy: str | None = None) -> dict[str, str]:
    """Return where each key stands, as `file:line`; empty for a file that cannot be read."""
    try:
        return _places([source.parse() for source in _sources(name, root, strategy)])
    except ConfigError:
        return {}


@dataclass(frozen=True)
class _Source:
    """A file, and the name by which its user knows it."""

    file: str
    path: Path

    def parse(self) -> ParsedFile:
        return parse_file(self.path, self.file)


def _sources(name: str, root: Path, strategy: str | None) -> list[_Source]:
    """Return the environment's file, then the overlay's.

    Raises ConfigError with the names that exist.
    """
    files = [("environment", name, environment_file(name), environment_names(root))]
    if strategy is not None:
        files.append(("strategy", strategy, strategy_file(strategy), strategy_names(root)))
    for kind, value, file, names in files:
        path = root / file
        if path.is_symlink() or path.exists():
            if not path.is_file():
                message = "is no file: a folder, a pipe, or a link that leads to no file"
                raise ConfigError(file, [Problem("", message, "write a file of that name")])
        else:
            message = (
                f"there is no {kind} {shorten(value)}; there are: {', '.join(names) or 'none'}"
            )
            raise ConfigError(file, [Problem("", message, "name one of them, or write this file")])
    return [_Source(file, root / file) for _, _, file, _ in files]


def _environment(sources: list[_Source], stem: str, root: Path | None = None) -> Environment:
    """Return the environment that the files make together; later files go over earlier ones, and
    all of them over what the workload of the repository at `root` says.

    Raises ConfigError with all mistakes.
    """
    parsed = [source.parse() for source in sources]
    for part in parsed:
        if part.document.problems and part.document.data is None:
            raise ConfigError(
                part.file,
                part.document.problems,
                {problem.key: part.place(problem.key) for problem in part.document.problems},
            )
        if not isinstance(part.document.data, dict):
            message = "an environment file is a mapping of keys to values"
            raise ConfigError(
                part.file,
                [
                    Problem(
                        "",
                        message,
                        "start with `name:`, `account:` and `region:`; see docs/environments.md",
                    )
                ],
            )
    document = _merged([part.document.data for part in parsed])
    unknown = list(unknown_workload(document, root)) if root else []
    if root and not unknown:
        unknown += misfits(document, root)
        document = _merged([beneath(document, root), document])
    environment, rule_problems = _validate(document, stem)
    rule_problems += unknown
    problems = [problem for part in parsed for problem in part.document.problems] + rule_problems
    if environment is None or problems:
        raise ConfigError(parsed[0].file, _in_file_order(problems, parsed), _places(parsed))
    return environment


def _merged(layers: list[Any]) -> dict[str, Any]:
    """Merge the layers: mappings key by key; of anything else the last one counts."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = _merged([merged[key], value]) if both else value
    return merged


def _places(parsed: list[ParsedFile]) -> dict[str, str]:
    return {key: part.place(key) for part in parsed for key in part.document.lines}


def _in_file_order(problems: list[Problem], parsed: list[ParsedFile]) -> list[Problem]:
    """Sort by the line in the file that has the last word on a key; overlays come last."""
    order = {
        key: (index, line)
        for index, part in enumerate(parsed)
        for key, line in part.document.lines.items()
    }
    return sorted(problems, key=lambda problem: place_of(problem.key, order, (0, 0)))


def _validate(data: dict[str, Any], stem: str) -> tuple[Environment | None, list[Problem]]:
    """Return all problems and, if types and limits are right, the environment.

    The rules between keys are checked on the part that is right.
    """
    environment, problems, wrong = _typed(data)
    if environment is None:
        # so that a missing name does not hide what the other rules find
        substitutes = {"name": stem, "account": "111122223333"}
        rest, _, _ = _typed(substitutes | without_keys(data, wrong))
        rule_problems = problems_between(rest, stem) if rest else []
        return None, problems + [
            problem for problem in rule_problems if not _is_about(problem, wrong)
        ]
    return environment, problems_between(environment, stem)


def _typed(data: dict[str, Any]) -> tuple[Environment | None, list[Problem], list[str]]:
    """Check the types without conversion: `"2"` is not a number, 111122223333 is not text."""
    try:
        return Environment.model_validate_json(json.dumps(data), strict=True), [], []
    except ValidationError as error:
        problems = problems_of(error, data)
        return None, problems, [problem.key for problem in problems]


def _is_about(problem: Problem, wrong: list[str]) -> bool:
    """Return whether a rule's problem rests on a key that is itself wrong."""
    return any(
        key == bad or key.startswith(f"{bad}.")
        for key in (problem.key, *problem.related)
        for bad in wrong
    )
