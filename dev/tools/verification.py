"""Writes the last column of docs/verification.md's tables: when the tests that a row names run.

It is read in the tests' sources, from `@pytest.mark.nightly`. A row without a test is checked by
nobody, and its cell is empty.
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
EVERY_CHANGE, PARTLY, NIGHT = "every change", "in part at night", "night"
_COLUMN = " tests run |"
_TESTS = re.compile(r"(?<![\w/])((?:local/)?tests(?:/[\w*]+)+(?:\.py)?)|(?<![\w/])(test_\w+\.py)")


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
            line = f"| {claim} | {how} | {where} | {when(files_of(where))} |"
        else:
            inside = False
        lines.append(line)
    return "\n".join(lines) + "\n"


def cells(row: str) -> list[str]:
    """Return the texts of a table's row; a bar after a backslash belongs to its text."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def files_of(where: str) -> set[Path]:
    """Return the test files that a cell names: by file, by folder, by pattern, and by a name alone,
    which lies beside the one before.
    """
    found: set[Path] = set()
    folder = ROOT
    for named, beside in _TESTS.findall(where):
        for path in ROOT.glob(named) if named else (folder / beside,):
            folder = path if path.is_dir() else path.parent
            found.update(path.rglob("test_*.py") if path.is_dir() else (path,))
    return found


def when(files: Iterable[Path]) -> str:
    """Return when the tests of `files` run: `night`, where no one of them is in `make test`."""
    nights = {each for file in files for each in nights_of(file)}
    if not nights:
        return ""
    if nights == {NIGHT}:
        return NIGHT
    return EVERY_CHANGE if nights == {EVERY_CHANGE} else PARTLY


@cache
def nights_of(file: Path) -> frozenset[str]:
    """Return when the tests of a file run, each once."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    ours = [each.value for each in tree.body if isinstance(each, ast.Assign) and _is_ours(each)]
    if any(_is_mark(part) for each in ours for part in ast.walk(each)):
        return frozenset({NIGHT})
    return frozenset(_night_of(test) for test in _tests(tree))


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
    """Whether `node` is `pytest.mark.nightly`, or a name for it."""
    return isinstance(node, ast.expr) and ast.unparse(node) in {"pytest.mark.nightly", "NIGHTLY"}


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
