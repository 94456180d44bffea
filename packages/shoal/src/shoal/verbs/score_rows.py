"""Rows to score, before they are uploaded: one bad file fails every later execution."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path

from shoal.errors import DatasetError
from shoal.settings.parsing.errors import shorten
from shoal.settings.sections.scoring import FOLDER, Scoring

_HEAD_BYTES = 2**20
_BEGINS_A_NUMBER = re.compile(r"\s*[-+]?\.?\d")
_utf_8 = codecs.getincrementaldecoder("utf-8")  # which takes half a character at the end


def require_rows(folder: Path, files: Iterable[str], scoring: Scoring) -> None:
    """Raise DatasetError for the first of the `files` below `folder`/score/ that is obviously bad.

    That is one without rows, one that cannot be read, and, as far as its media type tells, one that
    begins with a header, or with other columns than the first one.
    """
    first = ("", "")
    for name in sorted(f"{FOLDER}/{each}" for each in files):
        try:
            with (folder / name).open("rb") as file:
                columns = _columns(file.read(_HEAD_BYTES), scoring)
            first = first if first[0] else (name, columns)
            why = f"it has {columns}, and {first[0]} has {first[1]}" if columns != first[1] else ""
        except (OSError, ValueError, csv.Error) as error:
            why = str(error)
        if why:
            why += "; it would fail every execution that scores: mend or remove it"
            raise DatasetError(f"{folder}/{name}: {why}; nothing was uploaded")


def _columns(head: bytes, scoring: Scoring) -> str:
    """Return which columns the first row has, in words; "" of what has none.

    Raises ValueError for what is no such row.
    """
    kind, by_line = scoring.content_type.partition(";")[0], scoring.split == "line"
    if not head.strip():
        raise ValueError("it has no rows")
    is_csv = kind == "text/csv"
    if not (is_csv or (by_line and "json" in kind)):
        return ""
    lines = [line for line in _utf_8().decode(head).splitlines() if line.strip()]
    if not is_csv:
        row = json.loads(lines[0])
        return f"the keys {', '.join(sorted(row))}" if isinstance(row, dict) else ""
    rows = list(csv.reader(lines[:2]))
    numbers = [any(map(_BEGINS_A_NUMBER.match, row)) for row in rows]
    if by_line and all(rows[0]) and numbers == [False, True]:
        raise ValueError(f"it begins with a header, {shorten(lines[0])}, and rows need none")
    return f"{len(rows[0])} columns"
