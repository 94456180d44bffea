"""Rows to score, before they are uploaded: one bad file fails every later execution."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

from shoal.errors import DatasetError
from shoal.settings.parsing.errors import shorten
from shoal.settings.sections.scoring import FOLDER, Scoring


def require_rows(folder: Path, files: Iterable[str], scoring: Scoring) -> None:
    """Raise DatasetError for the first of the `files` below `folder`/score/ that is obviously bad.

    That is one without rows, one that cannot be read, and, as far as its media type tells, one that
    begins with a header, or with other columns than the first one.
    """
    kind, by_line = scoring.content_type.partition(";")[0], scoring.split == "line"
    first = ("", "")
    for file in sorted(files):
        name = f"{FOLDER}/{file}"
        try:
            lines = list(islice(_lines(folder / name), 2))
            columns = _columns(kind, lines, by_line=by_line) if lines else ""
        except (OSError, ValueError, csv.Error) as error:
            _refuse(folder, name, f"cannot be read as {kind}: {error}")
        if not lines:
            _refuse(folder, name, "has no rows")
        if first[0] and columns != first[1]:
            _refuse(folder, name, f"has {columns}, and {first[0]} has {first[1]}")
        first = first if first[0] else (name, columns)


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines that are not blank; what is no text is not told apart here."""
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        yield from (line for line in file if line.strip())


def _columns(kind: str, lines: list[str], *, by_line: bool) -> str:
    """Return which columns the first line has, in words; "" of what has none.

    Raises ValueError for what is no such line.
    """
    if kind == "text/csv":
        lines[0].encode()  # UnicodeEncodeError is a ValueError
        rows = list(csv.reader(lines))
        if by_line and rows[1:] and _is_header(*rows[:2]):
            message = (
                f"its first line is a header ({shorten(lines[0].strip())}), and rows need none"
            )
            raise ValueError(message)
        return f"{len(rows[0])} columns"
    if "json" in kind and by_line:
        row = json.loads(lines[0])
        return f"the keys {', '.join(sorted(row))}" if isinstance(row, dict) else ""
    return ""


def _is_header(first: list[str], second: list[str]) -> bool:
    """Return whether the first line names columns: it has no number, and the second one has."""
    return all(first) and not any(map(_is_number, first)) and any(map(_is_number, second))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _refuse(folder: Path, name: str, why: str) -> NoReturn:
    raise DatasetError(
        f"{folder}/{name} {why}; it would fail every execution that scores: mend or remove it;"
        " nothing was uploaded"
    )
