"""The how-tos, typed as they are written: daily up to the check, nightly to their ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import (
    NEEDS_A_RUN,
    NEEDS_AWS,
    ROOT,
    TAKES_A_MINUTE,
    marked,
    shown,
    text_of,
    unmarked,
)
from tests.docs.tutorials import typed, writable_checkout

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/how-to/*.md"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout to write into."""
    return writable_checkout(tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_what_it_writes_is_checked_and_what_it_shows_is_printed(page: str, checkout: Path) -> None:
    text = text_of(page)
    printed = typed(checkout, unmarked(text, NEEDS_A_RUN, NEEDS_AWS, TAKES_A_MINUTE)).splitlines()
    assert [line for line in shown(text) if line not in printed] == []
    assert len([line for line in printed if line.startswith("environments/")]) > 3
    assert len(text.splitlines()) <= 60


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [each for each in PAGES if TAKES_A_MINUTE in text_of(each)])
def test_what_takes_a_minute_works(page: str, checkout: Path) -> None:
    text = text_of(page)
    typed(checkout, unmarked(text, NEEDS_A_RUN, NEEDS_AWS, TAKES_A_MINUTE))
    typed(checkout, marked(text, TAKES_A_MINUTE), timeout_s=1100)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES)
def test_the_environments_that_it_writes_synthesise(page: str, checkout: Path) -> None:
    before = set((checkout / "environments").glob("*.yaml"))
    typed(checkout, unmarked(text_of(page), NEEDS_A_RUN, NEEDS_AWS, TAKES_A_MINUTE))
    (new,) = set((checkout / "environments").glob("*.yaml")) - before
    typed(checkout, f"```sh\n.venv/bin/shoal synth {new.stem}\n```\n", timeout_s=500)
