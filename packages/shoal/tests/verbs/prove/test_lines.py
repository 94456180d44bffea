"""The lines of a proof, compared with the pages that they are about."""

from __future__ import annotations

import re
import threading
from datetime import date
from pathlib import Path

import pytest

from shoal.errors import ShoalError
from shoal.verbs.prove.disposable import REGIONS, open_session
from shoal.verbs.prove.lines import BY_HAND, CLEAN_UP, LINES, Line
from shoal.verbs.prove.proof import PAGE, limited, max_usd, stamped
from shoal.verbs.workspace import Workspace
from tests.docs.pages import text_of
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT

DAY = date(2026, 11, 27)
CLAIMS = [claim for line in (*LINES, CLEAN_UP) for claim in line.claims]


def test_every_row_of_the_checklist_is_typed_once_or_left_to_a_person_with_a_reason() -> None:
    page = text_of("docs/first-aws-run.md")
    rows = [*re.findall(r"^\| (\d+[a-z]?) \|", page, re.M), "0"]
    typed = [row for line in (*LINES, CLEAN_UP) for row in line.rows]
    assert sorted([*typed, *BY_HAND]) == sorted(rows)
    assert all(BY_HAND.values())


@pytest.mark.parametrize("region", REGIONS)
def test_a_proof_takes_at_most_an_hour_and_five_dollars(region: str, tmp_path: Path) -> None:
    """Where its lines are stopped at their limits; a price that is not known raises."""
    session = open_session(
        Workspace(ROOT, {}), tmp_path, "prove-ab12", ACCOUNT, region, local=False
    )
    assert sum(line.limit_s for line in (*LINES, CLEAN_UP)) == 3600
    assert 0 < max_usd(session.environment) < 5
    assert session.environment.observability.monthly_budget_usd == 5


def test_a_line_is_stopped_at_its_limit_whatever_it_waits_for() -> None:
    with pytest.raises(ShoalError, match="did not end within 1 s"), limited(Line("x", [], 1)):
        threading.Event().wait()


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_dated_in_its_own_row_and_again_when_it_is_run_again(claim: str) -> None:
    page = text_of(PAGE)
    once = stamped(page, [claim], DAY, "us-east-1")
    changed = [
        (old, new)
        for old, new in zip(page.splitlines(), once.splitlines(), strict=True)
        if old != new
    ]
    stamp = " **(run on AWS 2026-11-27, us-east-1)**"
    assert [new for _, new in changed] == [old.replace(claim, claim + stamp) for old, _ in changed]
    assert len(changed) == 1
    again = stamped(once, [claim], date(2026, 12, 1), "us-west-2")
    assert again == once.replace("2026-11-27, us-east-1", "2026-12-01, us-west-2")


def test_what_was_not_proven_stays_as_it_is() -> None:
    assert stamped(text_of(PAGE), [], DAY, "us-east-1") == text_of(PAGE)
