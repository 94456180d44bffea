"""Reads rows, from CSV files and from requests, and writes answers. Requests are JSON
`{"instances": [[number, ...], ...]}` or CSV without a header.

The standard library alone: it runs behind the endpoint too, where TensorFlow's container may have
no other package.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import table
from table import EMPTY, FEATURES, TARGET, TEXTS, answer

CLASSES = getattr(table, "CLASSES", ())
JSON, CSV = "application/json", "text/csv"


def read(folder: Path) -> tuple[list[list[float]], list[Any]]:
    """Return the rows and what is known of each, a number or that of its class, from all CSV files
    in the folder.

    Raise ValueError for a file without the columns, or with something else in them.
    """
    rows, targets = [], []
    for file in sorted(folder.rglob("*.csv")):
        with file.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.DictReader(stream)
            if missing := {*FEATURES, TARGET} - set(lines.fieldnames or ()):
                raise ValueError(f"{file} has no column {', '.join(sorted(missing))}")
            for line in lines:
                try:
                    rows.append(row_of([line[name] for name in FEATURES]))
                    targets.append(target_of(line[TARGET]))
                except ValueError as error:
                    raise ValueError(f"{file}, line {lines.line_num}: {error}") from error
    if not rows:
        raise ValueError(f"there are no rows in {folder}")
    return rows, targets


def row_of(cells: list[Any]) -> list[Any]:
    """Return a row of a table or of a request, in the order of FEATURES."""
    pairs = zip(FEATURES, cells, strict=True)
    return [x if name in TEXTS else number(x, EMPTY) for name, x in pairs]


def target_of(cell: str) -> float:
    """Return the number in a cell of TARGET, or that of its class."""
    if CLASSES and cell not in CLASSES:
        raise ValueError(f"{cell!r} is not one of {', '.join(CLASSES)}")
    return CLASSES.index(cell) if CLASSES else number(cell)


def number(cell: Any, empty: str = "") -> float:
    """Return the number in a cell. Raise ValueError for none, or one that float32 cannot hold."""
    value = float(empty if cell in ("", None) else cell)
    if not abs(value) < 3.4e38 and str(value) != empty:
        raise ValueError(f"{value} is not a finite number of float32")
    return value


def rows_of(body: str, content_type: str | None) -> list[list[float]]:
    """Return the request's rows. Raise ValueError for another request."""
    kind = _media_type(content_type)
    if kind not in (JSON, CSV):
        raise ValueError(f"content type {content_type!r} is not supported; send {JSON} or {CSV}")
    try:
        lines = csv.reader(io.StringIO(body))
        rows = json.loads(body)["instances"] if kind == JSON else list(filter(None, lines))
        if rows and all(isinstance(row, list) and len(row) == len(FEATURES) for row in rows):
            return [row_of(row) for row in rows]
        reason = "these are no such rows"
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, csv.Error) as error:
        reason = str(error)
    raise ValueError(f'send rows of {", ".join(FEATURES)}, in JSON as "instances": {reason}')


def text_of(
    outputs: list[list[float]], model: dict[str, str], accept: str | None
) -> tuple[str, str]:
    """Return the answer, which in JSON names its model, and its media type, or raise ValueError."""
    predictions: list[Any] = [answer(output) for output in outputs]
    text = json.dumps({"predictions": predictions, "model": model}, allow_nan=False)
    kind = _media_type(accept) or JSON
    if kind in (JSON, "*/*", "application/*"):
        return text, JSON
    if kind == CSV:
        rows = (each.values() if isinstance(each, dict) else [each] for each in predictions)
        return "".join(f"{','.join(map(str, row))}\n" for row in rows), CSV
    raise ValueError(f"accept {accept!r} is not supported; ask for {JSON} or {CSV}")


def _media_type(header: str | None) -> str:
    return (header or "").split(";")[0].strip().lower()
