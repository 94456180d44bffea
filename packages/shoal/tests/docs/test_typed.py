"""The commands of guides, typed as they are written: daily up to the check, nightly to the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import (
    TAKES_A_MINUTE,
    marked,
    page_of,
    pages,
    scripts,
    text_of,
    typed,
    unmarked,
    writable_checkout,
)

HOW_TO = [page for page in pages() if page.startswith("docs/how-to/")]
GUIDES = {
    "docs/guides/your-own-model.md": "environments/heat.yaml: ok",
    "docs/guides/classical-model.md": "environments/rent.yaml: ok",
    "docs/guides/language-model.md": "environments/pages.yaml: ok",
    "docs/guides/trainers.md": "environments/chat.yaml: ok",
    "docs/environments.md": "",
    "images/README.md": "",
} | dict.fromkeys(HOW_TO, ": ok")
"""Page -> what its blocks without a mark print."""
ENDS = tuple(page for page in GUIDES if page.startswith("docs/guides/"))
SESSIONS = {
    "first run": ("docs/first-run.md", "docs/guides/runs.md"),
    "strategy": ("docs/environments.md",),
}
"""Pages whose longer blocks are typed in one checkout, those that end it last."""
DESTROY = ".venv/bin/shoal destroy "


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout to write into."""
    return writable_checkout(tmp_path)


@pytest.mark.parametrize("page", GUIDES)
def test_what_a_guide_writes_is_checked(page: str, checkout: Path) -> None:
    printed = typed(checkout, unmarked(text_of(page)))
    assert GUIDES[page] in printed
    assert [line for line in printed.splitlines() if line.startswith("may fail (")] == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", ENDS)
def test_what_a_guide_runs_answers_in_the_end(page: str, checkout: Path) -> None:
    typed(checkout, unmarked(text_of(page)))
    printed = typed(checkout, marked(text_of(page), TAKES_A_MINUTE), timeout_s=1700)
    assert "SmokeTest" in printed


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", HOW_TO)
def test_the_environment_of_a_how_to_synthesises(page: str, checkout: Path) -> None:
    before = set((checkout / "environments").glob("*.yaml"))
    typed(checkout, unmarked(text_of(page)))
    (new,) = set((checkout / "environments").glob("[!b]*.yaml")) - before  # without base-...
    typed(checkout, page_of([f".venv/bin/shoal synth {new.stem}"]), timeout_s=500)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("session", SESSIONS)
def test_longer_blocks_work(session: str, checkout: Path) -> None:
    text = "".join(marked(text_of(page), TAKES_A_MINUTE) for page in SESSIONS[session])
    try:
        blocks = sorted(scripts(text), key=lambda block: DESTROY in block)
        printed = typed(checkout, page_of(blocks), timeout_s=1500)
    finally:
        typed(checkout, page_of([".venv/bin/shoal local down || true"]))
    assert "SmokeTest" in printed
