"""A chart of boxes and arrows, and the text from which Mermaid draws it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

_DASHED = "classDef optional stroke-dasharray: 5 4"


@dataclass(frozen=True)
class Node:
    """A box, or a store (a cylinder), with the lines of its label, in a group or in none."""

    lines: tuple[str, ...]
    group: str = ""
    stores: bool = False


@dataclass(frozen=True)
class Group:
    """A frame around boxes and other groups."""

    label: str
    group: str = ""


@dataclass
class Chart:
    """Boxes, frames and arrows by their keys; an arrow's key is that of its two ends."""

    direction: str
    nodes: dict[str, Node] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    arrows: dict[tuple[str, str], str] = field(default_factory=dict)


_T = TypeVar("_T", Node, Group)


def drawn(usual: Chart, whole: Chart) -> str:
    """Return a block of Mermaid for both, where what only `whole` has is dashed."""
    both = Chart(
        usual.direction,
        whole.nodes | usual.nodes,
        whole.groups | usual.groups,
        whole.arrows | usual.arrows,
    )
    lines = [f"flowchart {both.direction}", *_inside(both, "", "  ")]
    for (start, end), label in both.arrows.items():
        arrow = "-->" if (start, end) in usual.arrows else "-.->"
        words = f'|"{label}"|' if label else ""
        lines.append(f"  {_id(start)} {arrow}{words} {_id(end)}")
    optional = [*(whole.nodes.keys() - usual.nodes), *(whole.groups.keys() - usual.groups)]
    if optional:
        lines += [f"  {_DASHED}", f"  class {','.join(sorted(map(_id, optional)))} optional"]
    return "\n".join(("```mermaid", *lines, "```"))


def _inside(chart: Chart, group: str, margin: str) -> Iterator[str]:
    """Yield the boxes of a group, and the groups in it with theirs."""
    for key, node in _of(chart.nodes, group):
        label = '"' + "<br/>".join(node.lines) + '"'
        yield f"{margin}{_id(key)}[({label})]" if node.stores else f"{margin}{_id(key)}[{label}]"
    for key, inner in _of(chart.groups, group):
        yield f'{margin}subgraph {_id(key)}["{inner.label}"]'
        yield from _inside(chart, key, margin + "  ")
        yield f"{margin}end"


def _of(entries: Mapping[str, _T], group: str) -> Iterator[tuple[str, _T]]:
    return ((key, entry) for key, entry in entries.items() if entry.group == group)


def _id(key: str) -> str:
    """Return an identifier that is none of Mermaid's words."""
    return f"x_{re.sub(r'[^A-Za-z0-9]', '_', key)}"
