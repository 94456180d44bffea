"""The README's conformance table names tests that exist."""

from __future__ import annotations

import re

from local.tests.smddp.runtime import ROOT

ROW = re.compile(r"^\| .* \| `(test_\w+\.py)::(test_\w+)` \|$", re.MULTILINE)


def test_every_row_of_the_conformance_table_names_a_test() -> None:
    rows = ROW.findall(
        (ROOT / "local" / "stand_ins" / "smddp" / "README.md").read_text(encoding="utf-8")
    )
    missing = [
        name
        for file, name in rows
        if f"def {name}("
        not in (ROOT / "local" / "tests" / "smddp" / file).read_text(encoding="utf-8")
    ]
    assert len(rows) > 40
    assert missing == []
