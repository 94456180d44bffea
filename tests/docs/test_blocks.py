"""Every block of commands on every page is typed by a test, or says why none can.

A page's blocks without a mark are typed daily, those that take a minute nightly. What a command
prints is not compared here; the tests of the tutorials and how-tos do that.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import (
    NEEDS_A_RUN,
    NEEDS_AWS,
    ROOT,
    TAKES_A_MINUTE,
    blocks,
    commands,
    pages,
    text_of,
    unmarked,
)
from tests.docs.tutorials import typed, writable_checkout

ELSEWHERE = {
    "README.md": "tests/docs/test_on_aws.py",
    "docs/first-aws-run.md": "tests/docs/test_on_aws.py",
    "docs/gitops.md": "tests/docs/test_gitops_page.py",
    "docs/operate.md": "tests/docs/test_on_aws.py",
    "docs/guides/clients.md": "local/tests/clients/test_page.py",
    "docs/guides/language-model.md": "tests/docs/test_language_model.py",
    "docs/guides/your-own-model.md": "tests/docs/test_your_own_model.py",
} | {
    path.relative_to(ROOT).as_posix(): "tests/docs/test_how_to.py"
    for path in ROOT.glob("docs/how-to/*.md")
}
"""Pages whose own tests type them."""
DAILY = ("docs/environments.md", "images/README.md")
SESSIONS = {
    "first run": ("docs/first-run.md", "docs/guides/runs.md"),
    "strategy": ("docs/environments.md",),
    "own model": ("docs/bring-your-model.md",),
}
"""Pages whose longer blocks are typed in one checkout, those that end it last."""
END = ".venv/bin/shoal destroy "
NOT_TYPED = {
    "CONTRIBUTING.md": "the gates run these tests and linters",
}
"""Pages whose commands are parsed only (tests/docs/test_commands.py), and why."""


def untyped(page: str) -> list[str]:
    """Return the first line of each block of commands that no test types and that does not say
    why. Targets of make are the gates themselves, or run in them.
    """
    if page in {*ELSEWHERE, *NOT_TYPED}:
        return []
    typed_here = page in DAILY
    nightly = any(page in session for session in SESSIONS.values())
    return [
        block.splitlines()[0]
        for block in blocks(text_of(page))
        if not all(words[0] == "make" for words in commands(f"```sh\n{block}```"))
        if not block.lstrip().startswith((NEEDS_AWS, NEEDS_A_RUN))
        if not (nightly if block.lstrip().startswith(TAKES_A_MINUTE) else typed_here)
    ]


@pytest.mark.parametrize("page", pages())
def test_every_block_of_commands_is_typed_or_says_why_not(page: str) -> None:
    assert untyped(page) == []


def test_every_page_with_tests_of_its_own_is_named_there() -> None:
    missing = {
        page: test
        for page, test in ELSEWHERE.items()
        if Path(page).name not in (text := (ROOT / test).read_text()) and "how-to" not in text
    }
    assert missing == {}
    assert {*ELSEWHERE, *DAILY, *NOT_TYPED} <= set(pages())


@pytest.mark.parametrize("page", DAILY)
def test_short_blocks_work(page: str, tmp_path: Path) -> None:
    typed(writable_checkout(tmp_path), unmarked(text_of(page), NEEDS_AWS, TAKES_A_MINUTE))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("session", SESSIONS)
def test_longer_blocks_work(session: str, tmp_path: Path) -> None:
    checkout = writable_checkout(tmp_path)
    text = "".join(text_of(page) for page in SESSIONS[session])
    long = [block for block in blocks(text) if block.startswith(TAKES_A_MINUTE)]
    page = "".join(f"```sh\n{block}```\n" for block in sorted(long, key=lambda each: END in each))
    try:
        printed = typed(checkout, page, timeout_s=1500)
    finally:
        typed(checkout, "```sh\n.venv/bin/shoal local down || true\n```\n")
    assert "SmokeTest" in printed
