"""Writes the dataset: trips of a van, invented, so that this workload runs at once. Put your own
data in their place.

`python prepare.py --out FOLDER` writes FOLDER/train/trips.csv and FOLDER/test/trips.csv, the same
files each time.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

COLUMNS = ("distance_km", "stops", "load_kg", "minutes")
ROWS = {"train": 2000, "test": 400}
NOISE = 5.0  # minutes: standard deviation of what no model can know


def trip(generator: random.Random) -> tuple[float, ...]:
    """Return one row."""
    distance = round(generator.uniform(1, 60), 1)
    stops, load = generator.randint(1, 20), generator.randint(0, 900)
    minutes = 10 + 1.5 * distance + 6 * stops + 0.002 * load * stops
    return distance, stops, load, round(minutes + generator.gauss(0, NOISE), 1)


def main() -> None:
    """Write both channels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    generator = random.Random(1)  # noqa: S311 - no secret: the same rows each time
    for channel, count in ROWS.items():
        (folder / channel).mkdir(parents=True, exist_ok=True)
        with (folder / channel / "trips.csv").open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(COLUMNS)
            rows.writerows(trip(generator) for _ in range(count))


if __name__ == "__main__":
    main()
