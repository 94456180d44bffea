"""Read damaged copies of a dataset's training files with data.py.

Writes each case's error to the last path of its arguments.
"""

import json
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])
import data

good, work, answer = Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def change(name: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(edit((folder / name).read_bytes()))

    return damage


DAMAGE = {
    "nothing": lambda folder: None,
    "missing": lambda folder: (folder / LABELS).unlink(),
    "empty": change(IMAGES, lambda content: b""),
    "no entries": change(LABELS, lambda content: struct.pack(">2I", 0x801, 0)),
    "truncated": change(IMAGES, lambda content: content[:-1]),
    "too long": change(IMAGES, lambda content: content + b"\0"),
    "wrong magic": change(IMAGES, lambda content: struct.pack(">I", 0x801) + content[4:]),
    "gzip": change(IMAGES, lambda content: b"\x1f\x8b\x08\x00" + content[4:]),
    "label": change(LABELS, lambda content: content[:-1] + b"\x0a"),
    "fewer labels": change(LABELS, lambda content: struct.pack(">2I", 0x801, 7) + content[8:15]),
    "other size": change(
        IMAGES,
        lambda content: struct.pack(">4I", 0x803, len(content[16:]) // 392, 14, 28) + content[16:],
    ),
}


def read(folder: Path) -> Any:
    """Read the training digits as the framework's data.py does."""
    if hasattr(data, "read_train"):
        return data.read_train(folder)
    return data.Digits.read(folder, "train")


answers = {}
for name, damage in DAMAGE.items():
    folder = work / name
    shutil.copytree(good, folder)
    damage(folder)
    try:
        answers[name] = f"{len(read(folder))} digits"
    except ValueError as error:
        answers[name] = str(error)
answer.write_text(json.dumps(answers))
