"""The generated pages say what the program says today."""

from __future__ import annotations

import click
import pytest

from dev.tools.reference import (
    COMMAND,
    FOLDER,
    STACKS,
    anchor,
    cli_page,
    environment_page,
    pages,
)


@pytest.mark.parametrize("name", sorted(pages()))
def test_page_is_current(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert committed == pages()[name], f"docs/reference/{name} is not current: run `{COMMAND}`"


def test_every_generated_page_is_known() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(pages()) | {STACKS}


def test_pages_do_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert pages()["cli.md"] == (FOLDER / "cli.md").read_text(encoding="utf-8")


@click.group(epilog="Exit codes: 0 it worked, 7 out of luck.")
def tool() -> None:
    """Does things."""


@tool.group()
def inner() -> None:
    """Holds a verb."""


@inner.command()
@click.argument("place")
@click.option("--size", type=click.IntRange(1, 9), default=3, show_default=True, help="How <much>.")
@click.option("--way", type=click.Choice(["up", "down"]), required=True)
def move(place: str, size: int, way: str) -> None:
    """Move PLACE.

    Slowly, and
    with care.
    """


def test_a_command_is_shown_with_usage_help_options_and_exit_codes() -> None:
    page = cli_page(tool, "tool")
    assert "## `tool inner move`\n\n```text\ntool inner move [OPTIONS] PLACE\n```\n" in page
    assert "\nMove PLACE.\n\nSlowly, and with care.\n" in page
    assert "| `--size INTEGER RANGE` | How \\<much>. [default: 3; 1\\<=x\\<=9] |" in page
    assert "| `--way [up\\|down]` | [required] |" in page
    assert "| 7 | out of luck |" in page


def test_a_key_is_shown_with_type_default_limits_and_description() -> None:
    inner = {"properties": {"size": {"type": "integer", "minimum": 1, "maximum": 2000}}}
    root = {
        "$defs": {"Inner": {"description": "What is inside.", "required": ["size"], **inner}},
        "properties": {
            "mode": {"enum": ["a", "b"], "default": "a", "description": "The | mode."},
            "inner": {"$ref": "#/$defs/Inner"},
            "many": {"type": "array", "items": {"$ref": "#/$defs/Inner"}, "default": []},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    page = environment_page(root)
    assert '| `mode` | one of `a`, `b` | `"a"` |  | The \\| mode. |' in page
    assert "| `inner` | [section](#inner) | the defaults of its keys |  | What is inside. |" in page
    assert "| `many` | list of [section](#many) | *none* |  |  |" in page
    assert "| `map` | map of text | *none* |  |  |" in page
    assert "## `many[]`\n\nWhat is inside.\n" in page
    assert page.count("| `size` | integer | **required** | 1 to 2,000 |  |") == 2


@pytest.mark.parametrize(
    ("heading", "name"),
    [("`data.on_manifest`", "dataon_manifest"), ("`shoal data upload`", "shoal-data-upload")],
)
def test_links_lead_to_headings_as_github_names_them(heading: str, name: str) -> None:
    assert anchor(heading) == name
