"""Links and their headings lead somewhere, every page is in the index, and keys are current."""

from __future__ import annotations

import pytest

from dev.tools.reference import COMMAND, FOLDER, anchor
from dev.tools.reference import pages as reference_pages
from shoal.settings.loading.loader import strategy_names
from tests.docs.pages import ROOT, headings, links, pages, text_of


def leads_somewhere(link: str, page: str) -> bool:
    """Whether a link of `page` leads to a file or folder, and to a heading if it names one."""
    target, _, name = link.partition("#")
    path = (ROOT / page).parent / target if target else ROOT / page
    if not path.exists():
        return False
    return not name or name in map(anchor, headings(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_to_a_page_and_a_heading(page: str) -> None:
    assert [link for link in links(text_of(page)) if not leads_somewhere(link, page)] == []


def test_every_page_of_the_docs_is_in_an_index() -> None:
    listed = {
        (ROOT / index).parent.joinpath(link.partition("#")[0]).resolve()
        for index in ("docs/README.md", "docs/strategies/README.md")
        for link in links(text_of(index))
    }
    assert {ROOT / page for page in pages() if page.startswith("docs/")} - listed == {
        ROOT / "docs" / "README.md"
    }


@pytest.mark.parametrize("name", sorted(reference_pages()))
def test_keys_are_current(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert committed == reference_pages()[name], f"docs/reference/{name}: run `{COMMAND}`"


def test_every_strategy_has_a_page() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "strategies").glob("*.md")}
    assert set(strategy_names(ROOT)) - pages == set()
