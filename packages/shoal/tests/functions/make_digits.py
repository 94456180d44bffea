"""Writes the requests of MNIST's smoke test, training_code/mnist/smoke_test/0.json to 9.json: the
first test image of each digit class of the original MNIST test files.

Run `python -m tests.functions.make_digits FOLDER`, with the unpacked `t10k-images-idx3-ubyte` and
`t10k-labels-idx1-ubyte` in FOLDER.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "training_code" / "mnist" / "smoke_test"
# Published md5 sums of the unpacked files.
MD5 = {
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
_SIDE = 28
_IMAGES_HEADER_BYTES = 16
_LABELS_HEADER_BYTES = 8


def digits() -> list[dict[str, Any]]:
    """Return label and pixels (28 rows of 28 numbers, 0 to 255) of what the smoke test sends."""
    return [
        {
            "label": label,
            "pixels": json.loads((FOLDER / f"{label}.json").read_text())["instances"][0],
        }
        for label in range(10)
    ]


def digits_file() -> bytes:
    """Return the digits as one JSON document, for models that learn them by heart."""
    return json.dumps({"digits": digits()}).encode()


def write(folder: Path) -> None:
    """Write the requests from the original files in `folder`."""
    images = _checked(folder, "t10k-images-idx3-ubyte")[_IMAGES_HEADER_BYTES:]
    labels = _checked(folder, "t10k-labels-idx1-ubyte")[_LABELS_HEADER_BYTES:]
    for label in range(10):
        request = {"instances": [_rows(images, labels.index(label))]}
        text = json.dumps(request, separators=(",", ":"))
        (FOLDER / f"{label}.json").write_text(f"{text}\n")


def _rows(images: bytes, index: int) -> list[list[int]]:
    start = index * _SIDE * _SIDE
    return [list(images[start + row * _SIDE : start + (row + 1) * _SIDE]) for row in range(_SIDE)]


def _checked(folder: Path, name: str) -> bytes:
    content = (folder / name).read_bytes()
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != MD5[name]:
        raise SystemExit(f"{folder / name} is not the original file")
    return content


if __name__ == "__main__":
    write(Path(sys.argv[1]))
