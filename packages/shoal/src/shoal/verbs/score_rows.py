"""Rows to score, before they are uploaded: one bad file fails every later execution."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterable
from itertools import islice, zip_longest
from pathlib import Path

from shoal.errors import DatasetError
from shoal.settings.parsing.errors import shorten
from shoal.settings.sections.scoring import FOLDER, Scoring

_HEAD_BYTES, _ROWS = 2**20, 20
_utf_8 = codecs.getincrementaldecoder("utf-8")  # which takes half a character at the end


def require_rows(folder: Path, files: Iterable[str], scoring: Scoring) -> None:
    """Raise DatasetError for the first of the `files` below `folder`/score/ that is obviously bad.

    That is one without rows, and, as far as its media type tells, one that cannot be read, that
    begins with a header, or that has another number of columns than the first one.
    """
    first = ("", "")
    for name in sorted(f"{FOLDER}/{each}" for each in files):
        try:
            with (folder / name).open("rb") as file:
                columns = _columns(file.read(_HEAD_BYTES), scoring)
            first = first if first[1] else (name, columns)
            differs = columns and columns != first[1]
            why = f"it has {columns}, {first[0]} has {first[1]}: one is wrong" if differs else ""
        except (OSError, ValueError, csv.Error) as error:
            why = str(error)
        if why:
            why += "; it would fail every execution that scores: mend or remove it"
            raise DatasetError(f"{folder}/{name}: {why}; nothing was uploaded")


def _columns(head: bytes, scoring: Scoring) -> str:
    """Return how many columns the first row has, in words; "" where that cannot be told.

    Raises ValueError for what is no such row.
    """
    kind, by_line = scoring.content_type.partition(";")[0], scoring.split == "line"
    is_csv = kind == "text/csv"
    if not head.strip():
        raise ValueError("it has no rows")
    if len(head) == _HEAD_BYTES:
        head = head[: head.rfind(b"\n") + 1]  # a row without its end says nothing
    if not head or not (is_csv or (by_line and "json" in kind)):
        return ""
    text = _utf_8().decode(head).removeprefix("\N{BYTE ORDER MARK}")
    lines = [line for line in text.split("\n") if line.strip()][:_ROWS]
    if not lines:
        raise ValueError("it has no rows")
    if not is_csv:
        json.loads(lines[0])
        return ""
    csv.field_size_limit(_HEAD_BYTES)
    rows = list(islice(csv.reader(lines if by_line else io.StringIO(text, newline="")), _ROWS))
    if by_line and _is_header(rows[0], rows[1:]):
        raise ValueError(f"it begins with a header, {shorten(lines[0])}, and rows need none")
    return f"{len(rows[0])} columns"


def _is_header(first: list[str], rest: list[list[str]]) -> bool:
    """Return whether words stand above a column of numbers, and no number beside them."""
    columns = [[cell for cell in column if cell] for column in zip_longest(*rest)]
    numeric = any(column and all(map(_is_number, column)) for column in columns)
    return numeric and all(cell and not _is_number(cell) for cell in first)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
