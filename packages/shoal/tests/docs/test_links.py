"""Links lead somewhere, every page is in an index, keys are current, and attacks have tests."""

from __future__ import annotations

import ast
import re

import pytest

from dev.tools.reference import COMMAND, FOLDER, anchor
from dev.tools.reference import pages as reference_pages
from shoal.settings.loading.loader import strategy_names
from tests.docs.pages import ROOT, headings, links, pages, text_of
from tests.repository import CHECKOUT


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


TABLE = (CHECKOUT / "packages/shoal/tests/red_team/README.md").read_text()
TESTS = re.findall(r"`(packages/shoal(?:-local)?/tests/[\w/]+\.py)::(test_\w+)`", TABLE)


def test_each_attack_has_one_test() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(TESTS) > 0


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_it_exists(file: str, name: str) -> None:
    tree = ast.parse((CHECKOUT / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
