"""Makes the dataset: houses with income of the district, rooms, age and distance to the sea, and
their prices in thousands. Nothing is downloaded, and the same files come out each time.

    python prepare.py --out FOLDER

writes FOLDER/train/houses.csv and FOLDER/test/houses.csv.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

COLUMNS = ("income", "rooms", "age", "distance", "price")
ROWS = {"train": 4000, "test": 800}
SEED = 20261123
NOISE = 15.0
"""Standard deviation of what no model can know, in thousands."""


def house(generator: random.Random) -> tuple[float, ...]:
    """Return one row: income of the district in 10,000, rooms, years, km, price in thousands."""
    income = round(generator.lognormvariate(1.2, 0.45), 2)
    rooms = generator.randint(2, 9)
    age = generator.randint(0, 60)
    distance = round(generator.uniform(0, 80), 1)
    price = 40 + 35 * income + 4 * rooms * income**0.5 - 0.6 * age + 90 / (1 + distance / 10)
    return income, rooms, age, distance, round(price + generator.gauss(0, NOISE), 1)


def main() -> None:
    """Write both channels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    generator = random.Random(SEED)  # noqa: S311 - no secret: the same houses each time
    for channel, count in ROWS.items():
        (folder / channel).mkdir(parents=True, exist_ok=True)
        with (folder / channel / "houses.csv").open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(COLUMNS)
            rows.writerows(house(generator) for _ in range(count))


if __name__ == "__main__":
    main()
