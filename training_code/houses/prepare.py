"""Writes the dataset: the table of 442 people with diabetes that scikit-learn brings along, ten
measurements of each and how far the disease had gone a year later. Nothing is downloaded, and the
same files come out each time.

    python prepare.py --out FOLDER

writes FOLDER/train/people.csv and FOLDER/test/people.csv.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from sklearn.datasets import load_diabetes

TEST_EVERY = 5
"""Each fifth row is for the test; the order says little of the target (correlation 0.06)."""


def main() -> None:
    """Write both channels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    table = load_diabetes(scaled=False)
    rows = [[*row, y] for row, y in zip(table.data.tolist(), table.target.tolist(), strict=True)]
    train = [row for number, row in enumerate(rows) if number % TEST_EVERY]
    for channel, part in (("train", train), ("test", rows[::TEST_EVERY])):
        (folder / channel).mkdir(parents=True, exist_ok=True)
        with (folder / channel / "people.csv").open("w", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow([*table.feature_names, "progression"])
            lines.writerows(part)


if __name__ == "__main__":
    main()
