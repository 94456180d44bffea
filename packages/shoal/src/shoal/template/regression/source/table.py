"""The table: its columns, what is measured and what is answered. This file is yours.

The standard library alone, because it runs in training, in evaluation and behind the endpoint.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

FEATURES = ("distance_km", "stops", "load_kg")
TEXTS: tuple[str, ...] = ()  # features that are no numbers: model.py encodes them
EMPTY = "my-empty"  # what an empty cell of a number is: "nan", or "" to refuse it
TARGET = "minutes"


def read(folder: Path) -> tuple[list[list[float]], list[float]]:
    """Return the rows and what is known of each, from all CSV files in the folder.

    Raise ValueError for a file without the columns, or with something else than numbers.
    """
    rows, targets = [], []
    for file in sorted(folder.rglob("*.csv")):
        with file.open(newline="", encoding="utf-8-sig") as stream:
            table = csv.DictReader(stream)
            if missing := {*FEATURES, TARGET} - set(table.fieldnames or ()):
                raise ValueError(f"{file} has no column {', '.join(sorted(missing))}")
            for row in table:
                try:
                    rows.append(row_of([row[name] for name in FEATURES]))
                    targets.append(number(row[TARGET]))
                except ValueError as error:
                    raise ValueError(f"{file}, line {table.line_num}: {error}") from error
    if not rows:
        raise ValueError(f"there are no rows in {folder}")
    return rows, targets


def row_of(cells: list[Any]) -> list[Any]:
    """Return a row of a table or of a request, in the order of FEATURES."""
    pairs = zip(FEATURES, cells, strict=True)
    return [x if name in TEXTS else number(x, EMPTY) for name, x in pairs]


def number(cell: Any, empty: str = "") -> float:
    """Return the number in a cell. Raise ValueError for none, or one that float32 cannot hold."""
    value = float(empty if cell in ("", None) else cell)
    if not abs(value) < 3.4e38 and str(value) != empty:
        raise ValueError(f"{value} is not a finite number of float32")
    return value


def measure(outputs: list[list[float]], targets: list[float]) -> dict[str, float]:
    """Return the numbers that the gates of workload.yaml judge."""
    mean = sum(targets) / len(targets)
    pairs = zip(outputs, targets, strict=True)
    residual = sum((answer(output) - target) ** 2 for output, target in pairs)
    total = sum((target - mean) ** 2 for target in targets)
    return {
        "rmse": (residual / len(targets)) ** 0.5,
        "r2": 1 - residual / total if total else 0.0,  # of one target alone, as scikit-learn
        "rows": len(targets),
    }


def answer(output: list[float]) -> float:
    """Return what the endpoint answers for one row, from the network's output."""
    return output[0]
