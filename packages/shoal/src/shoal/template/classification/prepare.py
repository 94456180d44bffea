"""Writes the dataset: parcels of three kinds, invented, so that this workload runs at once. Put
your own data in their place.

`python prepare.py --out FOLDER` writes FOLDER/train/parcels.csv and FOLDER/test/parcels.csv, the
same files each time.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

COLUMNS = ("width_cm", "height_cm", "weight_kg", "kind")
TYPICAL = {"letter": (23, 1, 0.1), "box": (40, 30, 6.0), "pallet": (120, 90, 250.0)}
"""Width, height and weight of each kind; a parcel's own differ by a third or so."""
ROWS = {"train": 1500, "test": 300}


def parcel(generator: random.Random) -> tuple[float | str, ...]:
    """Return one row."""
    kind = generator.choice(list(TYPICAL))
    sizes = (round(size * generator.lognormvariate(0, 0.3), 3) for size in TYPICAL[kind])
    return *sizes, kind


def main() -> None:
    """Write both channels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    generator = random.Random(1)  # noqa: S311 - no secret: the same rows each time
    for channel, count in ROWS.items():
        (folder / channel).mkdir(parents=True, exist_ok=True)
        with (folder / channel / "parcels.csv").open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(COLUMNS)
            rows.writerows(parcel(generator) for _ in range(count))


if __name__ == "__main__":
    main()
