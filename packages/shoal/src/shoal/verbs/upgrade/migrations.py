"""Keys of environments' and workloads' files that have another name in a later version.

A migration edits the text, so comments and order stay. It stays in the table: a team may upgrade
over many versions at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

ENVIRONMENTS, WORKLOADS = "environments/**/*.yaml", "training_code/*/workload.yaml"
Migration = tuple[str, str, Callable[[str], str]]
"""The first version that has it, which files, and what makes a file's new text of its old one."""


def migrate(root: Path, since: str, migrations: Sequence[Migration] | None = None) -> list[str]:
    """Apply what is newer than the version `since` at `root`; return the paths that changed."""
    changed, table = set(), MIGRATIONS if migrations is None else migrations
    for _, files, change in (each for each in table if order(each[0]) > order(since)):
        for file in root.glob(files):
            text = file.read_bytes().decode()  # line endings stay
            if (new := change(text)) != text:
                file.write_bytes(new.encode())
                changed.add(file.relative_to(root).as_posix())
    return sorted(changed)


def rename(*path: str, to: str) -> Callable[[str], str]:
    """Return a change that gives the key at `path` the name `to`; `*` is any key or item."""

    def change(text: str) -> str:
        for key in reversed([*_keys(yaml.compose(text, yaml.SafeLoader), path)]):
            text = text[: key.start_mark.index] + to + text[key.end_mark.index :]
        return text

    return change


def order(version: str) -> tuple[int, ...]:
    """Return what versions are compared by; a candidate counts as its release."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _keys(node: yaml.Node | None, path: Sequence[str]) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode) and path[0] == "*":
        for item in node.value:
            yield from _keys(item, path[1:])
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if path[0] in {"*", key.value}:
            yield from [key] if len(path) == 1 else _keys(value, path[1:])


MIGRATIONS: tuple[Migration, ...] = ()
"""In the order in which they are applied."""
