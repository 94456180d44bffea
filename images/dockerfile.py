"""A parser for as much of a Dockerfile as the recipes use: stages, arguments and variables.

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
        return [instruction for instruction in self.instructions if instruction.keyword == keyword]


@dataclass
class Dockerfile:
    """`arguments`: those before the first FROM, with their defaults."""

    arguments: dict[str, str] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)

    def lineage(self, stage: Stage) -> list[Stage]:
        """Return the stage and the earlier stages that it is built on, the first one first."""
        before = self.stages[: self.stages.index(stage)]
        earlier = {other.name: other for other in before if other.name}
        return [*(self.lineage(earlier[stage.base]) if stage.base in earlier else []), stage]

    def environment(self, stage: Stage) -> dict[str, str]:
        """Return what ENV has set at the end of the stage, with the defaults of arguments."""
        variables: dict[str, str] = {}
        for part in self.lineage(stage):
            arguments: dict[str, str] = {}
            for instruction in part.instructions:
                if instruction.keyword == "ARG":
                    name, _, default = instruction.value.partition("=")
                    arguments[name] = default or self.arguments.get(name, "")
                elif instruction.keyword == "ENV":
                    variables |= {
                        key: substitute(value, arguments | variables)
                        for key, value in pairs(instruction.value).items()
                    }
        return variables


def parse(text: str) -> Dockerfile:
    """Read a Dockerfile. Raises DockerfileError."""
    dockerfile = Dockerfile()
    for instruction in _instructions(text):
        if instruction.keyword == "FROM":
            dockerfile.stages.append(_stage(instruction, dockerfile.arguments))
        elif dockerfile.stages:
            dockerfile.stages[-1].instructions.append(instruction)
        elif instruction.keyword == "ARG":
            dockerfile.arguments |= pairs(instruction.value)
        else:
            raise DockerfileError(
                f"{instruction.line}: {instruction.keyword} before the first FROM"
            )
    if not dockerfile.stages:
        raise DockerfileError("1: there is no FROM")
    return dockerfile


def pairs(value: str) -> dict[str, str]:
    """Parse `A=1 B="two"`, and the old form `A 1`."""
    words = shlex.split(value)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return {name: text for name, _, text in (word.partition("=") for word in words)}


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Replace the variables that have a value here; the others stay as they are."""
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], match[0]), text)


def _stage(instruction: Instruction, arguments: Mapping[str, str]) -> Stage:
    words = [word for word in instruction.value.split() if not word.startswith("--")]
    name = words[2] if len(words) == 3 and words[1].upper() == "AS" else ""
    if len(words) not in (1, 3) or (len(words) == 3 and not name):
        raise DockerfileError(f"{instruction.line}: FROM IMAGE [AS NAME]")
    return Stage(instruction.line, substitute(words[0], arguments), name)


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
