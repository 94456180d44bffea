"""The errors of an environment file and of a definition, as values that print as one line each.

ConfigError         one environment file cannot be used
└── LaunchError     its training section asks for something that cannot run (`shoal.launch`)
DefinitionError     a pipeline's definition cannot be sent to SageMaker
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

NOTHING = object()
_MAX_KEY = 120
"""Characters of a key that a message shows: of another file, taken for ours, it shows no more."""
_MAX_LINES = 25
Value = TypeVar("Value")


@dataclass(frozen=True)
class Problem:
    """One mistake: where it is, its value, what is allowed and what to do."""

    key: str
    """Path of the key, as in `training.instance_type`; empty when the file as a whole is meant."""
    message: str
    """What is wrong and what is allowed, without a full stop."""
    advice: str
    """What to do, as an instruction."""
    value: Any = NOTHING
    """The value as written; NOTHING when there is none to show."""
    related: tuple[str, ...] = field(default=(), compare=False)
    """Further keys that the rule read.

    If one of them is already known to be wrong, this problem is not reported.
    """

    def line(self, place: str) -> str:
        """Return `place: key = value: what is wrong; what to do`."""
        key = self.key if len(self.key) <= _MAX_KEY else f"{self.key[: _MAX_KEY - 1]}…"
        shown = f"{key} = {shorten(self.value)}" if self.value is not NOTHING else key
        return one_line(
            ": ".join(part for part in (place, shown, f"{self.message}; {self.advice}") if part)
        )


class ConfigError(Exception):
    """One environment file cannot be used; `str()` gives every problem, one per line."""

    def __init__(
        self, file: str, problems: Sequence[Problem], places: Mapping[str, str] | None = None
    ) -> None:
        """`places` says where a key stands, as `file:line`; for all others `file` is named."""
        self.file = file
        self.problems = tuple(problems)
        more = len(problems) - _MAX_LINES
        self.lines = tuple(
            problem.line(place_of(problem.key, places or {}, file))
            for problem in problems[: None if more <= 1 else _MAX_LINES]
        ) + ((f"{file}: {more} more mistakes; correct these first",) if more > 1 else ())
        super().__init__("\n".join(self.lines))


class LaunchError(ConfigError):
    """The strategy, instance, image and launcher of the training section do not go together."""


class DefinitionError(Exception):
    """The definition cannot be sent to SageMaker; `str()` gives each mistake, with its step."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(mistakes))


class Risk(str):
    """A notice of what may make a run fail; only a run can tell."""

    __slots__ = ()


def place_of(key: str, places: Mapping[str, Value], default: Value) -> Value:
    """Return what `places` says of `key`; an item of a list stands where the list begins."""
    return places.get(key, places.get(key.partition("[")[0], default))


def with_values(problems: Iterable[Problem], settings: Mapping[str, Any]) -> list[Problem]:
    """Return the problems, each with the value that stands at its key in `settings`.

    Of a section, of what is left out and of secrets nothing is shown. A rule may give another value
    itself.
    """
    values = {key: value for key, value in entries(settings) if _is_shown(key, value)}
    return [
        each if each.value is not NOTHING else replace(each, value=values.get(each.key, NOTHING))
        for each in problems
    ]


def _is_shown(key: str, value: object) -> bool:
    is_list = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    is_plain = is_list or isinstance(value, str | int | float)
    return is_plain and "secrets" not in key.split(".")


def entries(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Yield `key` and the keys below it, each with what stands there."""
    yield key, value
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from entries(inner, f"{key}.{name}".removeprefix("."))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from entries(inner, f"{key}[{index}]")


def repeated(values: Iterable[str]) -> Iterator[str]:
    """Yield a message for each value that stands more than once."""
    for value, count in Counter(values).items():
        if count > 1:
            yield f"names {value} {count} times"


def one_line(text: str) -> str:
    """Return the text with escapes for what is not printed: line breaks, moves of a cursor."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def shorten(value: Any, limit: int = 80) -> str:
    """Return the value as YAML writes it, on one line, cut after `limit` characters.

    Of what is nested only the kind is shown: it may hold a secret.
    """
    if isinstance(value, Mapping) and value:
        return "a mapping"
    if isinstance(value, list | tuple):
        if any(isinstance(item, Mapping | list | tuple) for item in value):
            return "a list"
        text = f"[{', '.join(str(item) for item in value)}]"
    elif isinstance(value, str):
        text = f'"{value}"'
    else:
        text = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
    text = text.replace("\n", "\\n")
    return text if len(text) <= limit else text[: limit - 1] + "…"
