"""The checklist for the first run on AWS names claims that are there, and only read so far."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

CHECKLIST, _, _ = (ROOT / "docs/first-aws-run.md").read_text().partition("\n## If the first")


def test_every_claim_of_the_checklist_is_one_that_is_only_read() -> None:
    verification = (ROOT / "docs/verification.md").read_text().splitlines()
    rows = re.findall(r"^\| \d+ \| .+ \| .+ \| (.*?) ?\|$", CHECKLIST, re.MULTILINE)
    claims = [claim for claim in rows if claim]
    read = [line for line in verification if "| read" in line]
    assert len(rows) == 20
    assert [each for each in claims if not any(line.startswith(f"| {each}") for line in read)] == []
