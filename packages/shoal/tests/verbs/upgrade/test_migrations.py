"""Keys get their new names in the text that people wrote, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.verbs.upgrade.finish import ENVIRONMENTS, WORKLOADS, migrate, rename

TEXT = """\
# old: not this
network: # kept
  old: [a, b]   # kept, too
  other: {old: 1, "old": 2}
jobs:
- old: x
- {old: y, other: old}
"""


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (("network", "old"), "  old: [a", "  newer: [a"),
        (("network", "other", "old"), '{old: 1, "old": 2}', "{newer: 1, newer: 2}"),
        (("jobs", "*", "old"), "- old: x\n- {old: y,", "- newer: x\n- {newer: y,"),
        (("*", "old"), "  old: [a", "  newer: [a"),
        (("jobs",), "\njobs:", "\nnewer:"),
        (("old",), "", ""),
        (("network", "old", "a"), "", ""),
        (("network", "absent", "old"), "", ""),
    ],
    ids=" ".join,
)
def test_a_key_is_renamed_where_it_stands(path: tuple[str, ...], before: str, after: str) -> None:
    assert rename(*path, to="newer")(TEXT) == TEXT.replace(before, after, 1 if before else 0)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "word\n", "a: é # ü\r\nold: 1\r\n"])
def test_any_file_can_be_looked_at(text: str) -> None:
    assert rename("old", to="newer")(text) == text.replace("old", "newer")


@pytest.mark.parametrize(
    ("since", "content"),
    [
        ("0.1.0", "c: 1\r\n"),
        ("0.2.0rc1", "a: 1\r\n"),
        ("0.2.0", "a: 1\r\n"),
        ("0.10.0", "a: 1\r\n"),
    ],
)
def test_all_that_is_newer_is_applied_in_order(tmp_path: Path, since: str, content: str) -> None:
    table = [
        ("0.2.0", ENVIRONMENTS, rename("a", to="b")),
        ("0.3.0", ENVIRONMENTS, rename("b", to="c")),
        ("0.3.0", WORKLOADS, rename("*", to="wrong")),
    ]
    for name in ("dev.yaml", "strategies/none.yaml"):
        file = tmp_path / "environments" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"a: 1\r\n")
    changed = migrate(tmp_path, since, table)
    texts = {file.read_bytes().decode() for file in tmp_path.rglob("*.yaml")}
    assert texts == {content}
    assert len(changed) == (2 if content != "a: 1\r\n" else 0)
