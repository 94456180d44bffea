"""Put a release into the text of an environment file, and leave every other character as it is.

The section `release` is replaced where it stands, or appended: at the top of the file, or in the
section of one of its `workloads`. It is found in YAML's own parse of the text. The result is parsed
again and compared, so a file in a style that this cannot edit is refused, not damaged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import yaml

from config import yaml_lines
from config.errors import ConfigError, Problem
from config.release import Release

SECTION = "release"
_WORKLOADS = "workloads"
_HEADER = "# Written by `shoal promote`, taken back by `git revert`; not for editing by hand."
_STEP = 2
"""Columns by which a section that is not there yet is indented."""


def with_release(text: str, release: Release, file: str, workload: str | None = None) -> str:
    """Return `text` with `release` in it, for one of several workloads if it is named.

    An empty section of the workload, `{}`, becomes lines. Raises ConfigError, naming `file`, for a
    text that cannot be edited.
    """
    path = _path(workload)
    place = _place(text, path)
    written = _written(text, place, release) if place else text
    _require_same(text, written, release, file, path)
    return written


def release_in(text: str, workload: str | None = None) -> object:
    """Return what the section says, as plain YAML; None where there is none."""
    parsed = yaml.safe_load(text)
    for name in _path(workload):
        parsed = parsed.get(name) if isinstance(parsed, dict) else None
    return parsed


def _path(workload: str | None) -> tuple[str, ...]:
    return (_WORKLOADS, workload, SECTION) if workload else (SECTION,)


@dataclass(frozen=True)
class _Place:
    """Where the section goes."""

    start: int
    """Index of the first line that it replaces, or before which it is written."""
    stop: int
    """Index of the line after those that it replaces."""
    keys: tuple[str, ...]
    """Keys to write, each in the one before; the last one is the section's."""
    indent: int
    """Column of the first of them."""
    emptied: slice | None = None
    """The characters of an empty value in whose place they come."""


def _written(text: str, place: _Place, release: Release) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    if place.emptied:
        text = text[: place.emptied.start].rstrip(" ") + text[place.emptied.stop :]
    lines = text.splitlines(keepends=True)
    before, after = "".join(lines[: place.start]), "".join(lines[place.stop :])
    if place.start == len(lines):
        before = before.rstrip("\r\n") + end if before else ""
        before += "" if place.indent else end
    return before + end.join(_lines(release, place)) + end + after


def _lines(release: Release, place: _Place) -> list[str]:
    """Return the section in block style; JSON's scalars are YAML's too."""
    *outer, section = place.keys
    lines = [f"{' ' * (_STEP * depth)}{_key(name)}:" for depth, name in enumerate(outer)]
    own = [_HEADER, f"{section}:"]
    for key, value in release.model_dump(mode="json").items():
        if isinstance(value, dict):
            own.append(f"  {key}:" if value else f"  {key}: {{}}")
            own += [f"    {json.dumps(name)}: {_scalar(entry)}" for name, entry in value.items()]
        else:
            own.append(f"  {key}: {_scalar(value)}")
    lines += [f"{' ' * (_STEP * len(outer))}{line}" for line in own]
    return [f"{' ' * place.indent}{line}" for line in lines]


def _scalar(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    """Return a name as a key: in quotes where YAML would read something else, as in `yes`."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def _place(text: str, path: tuple[str, ...]) -> _Place | None:
    """Return where the section goes: the end of the text where there is nothing of it; None where
    lines cannot be put between others.
    """
    lines = text.splitlines()
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, name in enumerate(path):
        entries = node.value if isinstance(node, yaml.MappingNode) else []
        entry = next((each for each in entries if each[0].value == name), None)
        if entry is None:
            if node is None or depth == 0:
                return _Place(len(lines), len(lines), path, 0)
            indent = entries[0][0].start_mark.column
            stop = _stop(lines, node, indent)
            return _Place(stop, stop, path[depth:], indent)
        key, value = entry
        start, indent = key.start_mark.line, key.start_mark.column
        if depth == len(path) - 1:
            has_header = start and lines[start - 1].strip() == _HEADER
            stop = max(start + 1, _stop(lines, value, indent))
            return _Place(start - 1 if has_header else start, stop, path[depth:], indent)
        if _is_empty(value):
            emptied = slice(value.start_mark.index, value.end_mark.index)
            return _Place(start + 1, start + 1, path[depth + 1 :], indent + _STEP, emptied)
        if not isinstance(value, yaml.MappingNode) or value.flow_style:
            return None
        node = value
    return None


def _is_empty(node: yaml.Node) -> bool:
    is_null = isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
    return is_null or (isinstance(node, yaml.MappingNode) and not node.value)


def _stop(lines: list[str], node: yaml.Node, indent: int) -> int:
    """Return the index of the line after the node's last one.

    What stands between two sections belongs to the second: empty lines, and comments that are not
    indented further than the first.
    """
    stop = _after(node)
    while stop > node.start_mark.line + 1 and _is_between(lines[stop - 1], indent):
        stop -= 1
    return stop


def _after(node: yaml.Node) -> int:
    """Return the index of the line after the node; for YAML a block ends where the next begins."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last: Any = node.value[-1]
        if isinstance(last, tuple):
            key, value = last
            return max(
                int(key.start_mark.line) + 1, _after(value)
            )  # an alias has its anchor's marks
        return _after(last)
    line: int = node.end_mark.line
    return line + (1 if node.end_mark.column else 0)


def _is_between(line: str, indent: int) -> bool:
    content = line.lstrip(" ")
    return not content.strip() or (content.startswith("#") and len(line) - len(content) <= indent)


def _require_same(
    before: str, after: str, release: Release, file: str, path: tuple[str, ...]
) -> None:
    """Raise ConfigError unless the two texts differ in the release only."""
    old, new = yaml_lines.parse(before), yaml_lines.parse(after)
    expected = _with_value(old.data, path, release.model_dump(mode="json"))
    if new.problems or expected is None or new.data != expected:
        message = (
            "this file is written in a style into which no release can be put without changing the"
            " rest"
        )
        advice = "write the file as `key: value` lines, as environments/dev.yaml is"
        raise ConfigError(file, [Problem(".".join(path), message, advice)])


def _with_value(data: Any, path: tuple[str, ...], value: object) -> dict[str, Any] | None:
    """Return the mapping with a value at `path`; None where it is no mapping, or none on the
    way.
    """
    name, *rest = path
    if not isinstance(data, dict):
        return None
    if rest:
        value = _with_value(data.get(name) or {}, tuple(rest), value)
        if value is None:
            return None
    return {**data, name: value}
