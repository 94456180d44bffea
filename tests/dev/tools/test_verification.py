"""The page of what was verified says when its tests run, as the tests have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.tools.verification import (
    EVERY_CHANGE,
    HEAD,
    NIGHT,
    PAGE,
    PARTLY,
    ROOT,
    cells,
    files_of,
    page,
    when,
)

DAILY = "def test_it() -> None: ...\n"
NIGHTLY = f"@pytest.mark.nightly\n{DAILY}"
ONE_CASE = (
    f'@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.nightly)])\n{DAILY}'
)


def test_the_page_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "docs/verification.md is not current: run `make reference`"


def test_what_a_row_says_was_run_names_a_test_or_says_who_ran_it() -> None:
    rows = [cells(line) for line in page(PAGE.read_text(encoding="utf-8")).splitlines()]
    claimed = [row for row in rows if len(row) == 4 and row[1].startswith("run")]
    by_hand = ("manually", "`make ", "every synth")
    assert len(claimed) > 100
    assert [
        row[0]
        for row in claimed
        if not row[3] and not any(each in "".join(row) for each in by_hand)
    ] == []


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ([DAILY], EVERY_CHANGE),
        ([NIGHTLY], NIGHT),
        ([f"pytestmark = pytest.mark.nightly\n{DAILY}"], NIGHT),
        ([f"pytestmark = [pytest.mark.nightly, pytest.mark.timeout(9)]\n{DAILY}"], NIGHT),
        ([f"pytestmark = pytest.mark.timeout(9)\n{DAILY}"], EVERY_CHANGE),
        ([ONE_CASE], PARTLY),
        ([DAILY, NIGHTLY], PARTLY),
        ([], ""),
    ],
)
def test_when_tests_run_is_read_from_their_marks(
    tmp_path: Path, sources: list[str], said: str
) -> None:
    files = [tmp_path / f"test_{number}.py" for number in range(len(sources))]
    for file, source in zip(files, sources, strict=True):
        file.write_text(source)
    assert when((file, "") for file in files) == said


def test_a_test_that_is_named_counts_alone(tmp_path: Path) -> None:
    file = tmp_path / "test_both.py"
    file.write_text(DAILY + NIGHTLY.replace("test_it", "test_more"))
    assert [when([(file, name)]) for name in ("", "test_it", "test_more")] == [
        PARTLY,
        EVERY_CHANGE,
        NIGHT,
    ]


def test_what_was_only_read_has_no_tests() -> None:
    table = f"{HEAD}\n| --- | --- | --- |\n| c | read (a page) | tests/config |\n"
    assert page(table).splitlines()[-1] == "| c | read (a page) | tests/config |  |"


def test_a_name_alone_lies_beside_the_one_before() -> None:
    named = files_of("docs/security.md, tests/cli/test_promote.py, test_release_status.py")
    assert named == {
        ROOT / "tests/cli" / f"test_{each}.py" for each in ("promote", "release_status")
    }


def test_other_tables_stay_as_they_are() -> None:
    other = "| strategy | s |\n| --- | --- |\n| none | 1 |\n"
    table = f"{HEAD}\n| --- | --- | --- |\n| two \\| bars | read | nowhere |\n"
    assert page(f"{other}\n{table}\n{other}") == (
        f"{other}\n{HEAD} tests are in |\n| --- | --- | --- | --- |\n"
        f"| two \\| bars | read | nowhere |  |\n\n{other}"
    )
