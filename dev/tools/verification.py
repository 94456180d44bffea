"""Writes the last column of docs/verification.md's tables: which command runs a row's tests.

It is read in the tests' sources, from `@pytest.mark.nightly`. The cell is empty where a row names
no test, and where AWS's side was read and not run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "verification.md"
HEAD = "| claim | how | where |"
EVERY_CHANGE, PARTLY, NIGHT = "`make test`", "both", "`make test-all`"
_COLUMN = " tests are in |"
_NOT_RUN = ("read", "not run", "not tested", "neither", "never run", "kept")
_TESTS = re.compile(
    r"(?<![\w/])((?:local/)?tests(?:/[\w*]+)+(?:\.py)?|test_\w+\.py)(?:::(test_\w+))?"
)


def page(text: str) -> str:
    """Return `text` with the column of each table of claims written again."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith(HEAD):
            inside, line = True, HEAD + _COLUMN
        elif inside and line.startswith("| ---"):
            line = "| --- | --- | --- | --- |"
        elif inside and line.startswith("|"):
            claim, how, where = cells(line)[:3]
            tests = "" if how.startswith(_NOT_RUN) else when(tests_of(where))
            line = f"| {claim} | {how} | {where} | {tests} |"
        else:
            inside = False
        lines.append(line)
    return "\n".join(lines) + "\n"


def cells(row: str) -> list[str]:
    """Return the texts of a table's row; a bar after a backslash belongs to its text."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def files_of(where: str) -> set[Path]:
    """Return the test files that a cell names, as `tests_of` finds them."""
    return {file for file, _ in tests_of(where)}


def tests_of(where: str) -> set[tuple[Path, str]]:
    """Return the files and tests (`FILE::TEST`, else "") that a cell names: by file, by folder, by
    pattern, and by a name alone, which lies beside the one before.
    """
    found: set[tuple[Path, str]] = set()
    folder = ROOT
    for named, test in _TESTS.findall(where):
        place = ROOT if "/" in named else folder
        for path in place.glob(named) if "*" in named else (place / named,):
            folder = path if path.is_dir() else path.parent
            files = path.rglob("test_*.py") if path.is_dir() else (path,)
            found.update((file, test) for file in files)
    return found


def when(tests: Iterable[tuple[Path, str]]) -> str:
    """Return which command runs the tests, `PARTLY` if some are in `make test-all` only."""
    nights = {each for file, test in tests for each in nights_of(file, test)}
    if not nights:
        return ""
    return nights.pop() if len(nights) == 1 else PARTLY


@cache
def nights_of(file: Path, name: str = "") -> frozenset[str]:
    """Return when the tests of a file run, or the one with this name."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    ours = [each.value for each in tree.body if isinstance(each, ast.Assign) and _is_ours(each)]
    if any(_is_mark(part) for each in ours for part in ast.walk(each)):
        return frozenset({NIGHT})
    return frozenset(_night_of(test) for test in _tests(tree) if name in {"", test.name})


def _tests(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith(
            "test_"
        ):
            yield each


def _night_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if any(_is_mark(each) for each in test.decorator_list):
        return NIGHT
    some = any(_is_mark(part) for each in test.decorator_list for part in ast.walk(each))
    return PARTLY if some else EVERY_CHANGE


def _is_ours(assignment: ast.Assign) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == "pytestmark" for each in assignment.targets
    )


def _is_mark(node: ast.AST) -> bool:
    """Whether `node` is `pytest.mark.nightly`."""
    return isinstance(node, ast.expr) and ast.unparse(node) == "pytest.mark.nightly"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
