"""The table: its columns, what is measured and what is answered. This file is yours.

The standard library alone, because it runs in training, in evaluation and behind the endpoint.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

FEATURES = ("width_cm", "height_cm", "weight_kg")
TEXTS: tuple[str, ...] = ()  # features that are no numbers: model.py encodes them
EMPTY = "my-empty"  # what an empty cell of a number is: "nan", or "" to refuse it
TARGET = "kind"
CLASSES = ("letter", "box", "pallet")


def read(folder: Path) -> tuple[list[list[float]], list[int]]:
    """Return the rows and the number of each one's class, from all CSV files in the folder.

    Raise ValueError for a file without the columns, or with something else in them.
    """
    rows, targets = [], []
    for file in sorted(folder.rglob("*.csv")):
        with file.open(newline="", encoding="utf-8-sig") as stream:
            table = csv.DictReader(stream)
            if missing := {*FEATURES, TARGET} - set(table.fieldnames or ()):
                raise ValueError(f"{file} has no column {', '.join(sorted(missing))}")
            for row in table:
                if row[TARGET] not in CLASSES:
                    raise ValueError(f"{file}: {row[TARGET]!r} is not one of {', '.join(CLASSES)}")
                try:
                    rows.append(row_of([row[name] for name in FEATURES]))
                    targets.append(CLASSES.index(row[TARGET]))
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


def measure(outputs: list[list[float]], targets: list[int]) -> dict[str, float]:
    """Return the numbers that the gates of workload.yaml judge."""
    pairs = zip(outputs, targets, strict=True)
    right = sum(answer(output)["label"] == CLASSES[target] for output, target in pairs)
    return {"accuracy": right / len(targets), "rows": len(targets)}


def answer(output: list[float]) -> dict[str, Any]:
    """Return what the endpoint answers for one row, from the network's logits."""
    largest = max(output)
    weights = [math.exp(logit - largest) for logit in output]
    return {"label": CLASSES[output.index(largest)], "probability": 1 / sum(weights)}
