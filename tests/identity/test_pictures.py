"""The pictures of stacks, network and roles are those of today's templates.

They are tested here because these templates are synthesised here.
"""

from __future__ import annotations

from dev.tools.pictures.mermaid import Chart, Group, Node, drawn
from dev.tools.pictures.page import stacks_page
from dev.tools.reference import COMMAND, FOLDER, NOTE, STACKS
from tests.identity.templates import Templates


def test_pictures_are_those_of_todays_templates(templates: dict[str, Templates]) -> None:
    committed = (FOLDER / STACKS).read_text(encoding="utf-8")
    current = stacks_page(templates["dev"], templates["everything"], NOTE)
    assert committed == current, f"docs/reference/{STACKS} is old: run `{COMMAND}`"


def test_a_picture_dashes_what_is_optional_and_frames_what_belongs_together() -> None:
    usual = Chart("LR", {"end": Node(("here", "there"), "frame")}, {"frame": Group("A frame")})
    whole = Chart("LR", usual.nodes | {"b": Node(("b",), stores=True)}, usual.groups)
    whole.arrows["end", "b"] = "to"
    assert drawn(usual, whole).splitlines() == [
        "```mermaid",
        "flowchart LR",
        '  x_b[("b")]',
        '  subgraph x_frame["A frame"]',
        '    x_end["here<br/>there"]',
        "  end",
        '  x_end -.->|"to"| x_b',
        "  classDef optional stroke-dasharray: 5 4",
        "  class x_b optional",
        "```",
    ]
