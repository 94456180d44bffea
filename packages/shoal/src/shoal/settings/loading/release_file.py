"""The file of an environment's pins, `environments/NAME.release.yaml`: releases by workload.

`shoal promote` writes it whole; the loader reads it as the section `release` of each workload.
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.parsing.yaml_file import Document, ParsedFile, parse, parse_file
from shoal.settings.sections.release import Release

SUFFIX = ".release.yaml"
SECTION = "release"
_HEADER = "# Written by `shoal promote`, taken back by `git revert`; not for editing by hand."
_PROMOTE = "let `shoal promote` write this file"


@dataclass(frozen=True)
class Pins:
    """What an environment pins."""

    part: ParsedFile

    @classmethod
    def beside(cls, path: Path, file: str) -> "Pins":
        """Return the pins of the environment in `path`; raise ConfigError unless a mapping."""
        path = path.with_name(f"{path.stem}{SUFFIX}")
        if not os.path.lexists(path):  # unlike exists(), it sees a dangling link
            return cls(ParsedFile(pins_of(file), Document({})))
        part = parse_file(path, pins_of(file))
        problems = part.document.problems
        if not problems and not isinstance(part.document.data, dict):
            problems = [Problem("", "is a mapping of workloads to what each pins", _PROMOTE)]
        if problems:
            raise ConfigError(part.file, problems, part.places())
        return cls(part)

    def section(self, workload: str) -> dict[str, Any]:
        """Return the section `release` of a workload: empty where it pins nothing."""
        data = self.part.document.data
        return {SECTION: data[workload]} if workload in data else {}

    def places(self, workload: str) -> dict[str, str]:
        """Return where each key of that section stands; one that is missing, where it begins."""
        places = self.part.places()
        keys = Release.model_fields if workload in places else ()
        return {f"{SECTION}.{key}": places[workload] for key in keys} | {
            f"{SECTION}{key.removeprefix(workload)}": place
            for key, place in places.items()
            if key.partition(".")[0] == workload
        }

    def require_known(self, workloads: Collection[str], file: str) -> None:
        """Raise ConfigError for a pin of a workload that the environment's `file` does not have."""
        for name in self.part.document.data:
            if name not in workloads:
                message = f"{file} has no such workload; there are: {', '.join(workloads)}"
                problem = Problem(name, message, "remove it here, or add it there")
                raise ConfigError(self.part.file, [problem], self.part.places())


def pins_of(file: str) -> str:
    """Return the path of the file with the pins of an environment's `file`."""
    return f"{file.removesuffix('.yaml')}{SUFFIX}"


def require_none(part: ParsedFile, file: str) -> None:
    """Raise ConfigError for a release in `part`: the pins of `file` have a file of their own."""
    for key in part.document.lines:
        if re.fullmatch(rf"(workloads\.[^.]+\.)?{SECTION}", key):
            message = f"is no key here any more: {pins_of(file)} has what is pinned"
            advice = "take it out, commit that, and let `shoal promote` write that file"
            raise ConfigError(part.file, [Problem(key, message, advice)], part.places())


def text_of(pins: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file for releases by workload, each as `Release.model_dump(mode="json")` is."""
    return "\n".join([_HEADER, *_lines({name: pins[name] for name in sorted(pins)}), ""])


def pins_in(text: str) -> dict[str, Any]:
    """Return the releases in the text of such a file by workload, unchecked."""
    data = parse(text).data
    return dict(data) if isinstance(data, dict) else {}


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Return a mapping in block style; JSON's scalars are YAML's too."""
    for key, value in values.items():
        name = key if re.fullmatch(r"[a-z][a-z0-9_-]*", key) else _scalar(key)
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name}: {_scalar(value)}"


def _scalar(value: object) -> str:
    """Return a value on one line; what is neither ASCII nor a letter is escaped, because YAML
    would fold or refuse some of it.
    """
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"[^ -~\w]", lambda match: f"\\U{ord(match[0]):08x}", text)
