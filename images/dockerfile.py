"""The text of a Dockerfile in; its stages, with arguments and variables known at each place, out.

Enough of the language for our recipes.

Reference: https://docs.docker.com/reference/dockerfile/. Heredocs, ONBUILD and other escape
characters are refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


class DockerfileError(Exception):
    """The text is not a Dockerfile that this module reads."""


@dataclass(frozen=True)
class Instruction:
    """One instruction, its continuation lines joined."""

    line: int
    keyword: str
    value: str


@dataclass
class Stage:
    """From one FROM to the next."""

    line: int
    base: str
    """As it is with the defaults of the arguments before the first FROM."""
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def of(self, keyword: str) -> list[Instruction]:
        return [each for each in self.instructions if each.keyword == keyword]


@dataclass
class Dockerfile:
    """`arguments`: those before the first FROM, with their defaults."""

    arguments: dict[str, str] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)

    def lineage(self, stage: Stage) -> list[Stage]:
        """The stage and the earlier stages it is built on, the first one first."""
        earlier = {each.name: each for each in self.stages[: self.stages.index(stage)] if each.name}
        return [*(self.lineage(earlier[stage.base]) if stage.base in earlier else []), stage]

    def environment(self, stage: Stage) -> dict[str, str]:
        """What ENV instructions set up to the end of the stage, arguments with their defaults
        filled in.
        """
        known: dict[str, str] = {}
        for part in self.lineage(stage):
            arguments: dict[str, str] = {}
            for each in part.instructions:
                if each.keyword == "ARG":
                    name, _, default = each.value.partition("=")
                    arguments[name] = default or self.arguments.get(name, "")
                elif each.keyword == "ENV":
                    known |= {
                        key: substitute(value, arguments | known)
                        for key, value in pairs(each.value).items()
                    }
        return known

    def default_arguments(self) -> dict[str, str]:
        """Every ARG with a default, wherever it stands."""
        return self.arguments | {
            name: default
            for stage in self.stages
            for each in stage.of("ARG")
            for name, _, default in [each.value.partition("=")]
            if default
        }


def parse(text: str) -> Dockerfile:
    """Raises DockerfileError."""
    found = Dockerfile()
    for each in _instructions(text):
        if each.keyword == "FROM":
            found.stages.append(_stage(each, found.arguments))
        elif found.stages:
            found.stages[-1].instructions.append(each)
        elif each.keyword == "ARG":
            found.arguments |= pairs(each.value)
        else:
            raise DockerfileError(f"{each.line}: {each.keyword} before the first FROM")
    if not found.stages:
        raise DockerfileError("1: there is no FROM")
    return found


def pairs(value: str) -> dict[str, str]:
    """`A=1 B="two"`, and the old form `A 1`."""
    words = shlex.split(value)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return {name: text for name, _, text in (word.partition("=") for word in words)}


def substitute(text: str, known: Mapping[str, str]) -> str:
    """With what is known filled in; the rest stays as it is."""
    return _VARIABLE.sub(lambda match: known.get(match[1] or match[2], match[0]), text)


def _stage(each: Instruction, arguments: Mapping[str, str]) -> Stage:
    words = [word for word in each.value.split() if not word.startswith("--")]
    name = words[2] if len(words) == 3 and words[1].upper() == "AS" else ""
    if len(words) not in (1, 3) or (len(words) == 3 and not name):
        raise DockerfileError(f"{each.line}: FROM IMAGE [AS NAME]")
    return Stage(each.line, substitute(words[0], arguments), name)


def _instructions(text: str) -> Iterator[Instruction]:
    started_at, parts = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip().startswith("#") or not line.strip():
            continue
        started_at = started_at or number
        parts.append(line.strip().removesuffix("\\").strip())
        if not line.rstrip().endswith("\\"):
            yield _instruction(started_at, " ".join(parts))
            started_at, parts = 0, []
    if parts:
        raise DockerfileError(f"{started_at}: the last line ends with a backslash")


def _instruction(line: int, text: str) -> Instruction:
    keyword, _, value = text.partition(" ")
    if "<<" in value or keyword.upper() == "ONBUILD":
        raise DockerfileError(f"{line}: heredocs and ONBUILD are not read here")
    return Instruction(line, keyword.upper(), value.strip())
