"""MNIST's files are read whole, and what is damaged is named."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from common.mnist_files import read_digits

COUNT = 3
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
PIXELS = bytes(range(256)) * 10
GOOD = {
    IMAGES: struct.pack(">4I", 0x803, COUNT, 28, 28) + PIXELS[: COUNT * 784],
    LABELS: struct.pack(">2I", 0x801, COUNT) + b"\7\2\1",
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_good_files_are_their_pixels_and_labels(tmp_path: Path) -> None:
    pixels, labels = read_digits(write(tmp_path, GOOD), "train")
    assert (bytes(pixels), bytes(labels)) == (PIXELS[: COUNT * 784], b"\7\2\1")
    assert not pixels.readonly


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (IMAGES, b"", "train-images-idx3-ubyte is empty: 0 bytes, the header alone has 16"),
        (IMAGES, b"\0\0\x08\x03", "is truncated: 4 bytes, the header alone has 16"),
        (LABELS, struct.pack(">2I", 0x801, 0), "train-labels-idx1-ubyte is empty: it holds 0"),
        (IMAGES, GOOD[IMAGES][:-1], r"is truncated: 2351 bytes for shape \(3, 28, 28\)"),
        (IMAGES, GOOD[IMAGES] + b"\0", "is too long: 2353 bytes"),
        (IMAGES, b"\0\0\x08\x01" + GOOD[IMAGES][4:], "magic number 0x00000801, not 0x00000803"),
        (IMAGES, b"\x1f\x8b\x08\0" + GOOD[IMAGES][4:], "it is gzip-compressed: unpack it first"),
        (LABELS, GOOD[LABELS][:-1] + b"\x0a", "label 10 is outside 0..9"),
        (LABELS, struct.pack(">2I", 0x801, 2) + b"\1\2", "3 images but 2 labels"),
        (
            IMAGES,
            struct.pack(">4I", 0x803, COUNT * 2, 14, 28) + PIXELS[: COUNT * 784],
            "images are 14x28 pixels, not 28x28",
        ),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_digits(write(tmp_path, {**GOOD, name: content}), "train")


def test_what_the_folder_holds_instead_is_said(tmp_path: Path) -> None:
    write(tmp_path, {IMAGES: GOOD[IMAGES]})
    with pytest.raises(ValueError, match=f"{LABELS} does not exist; the folder holds {IMAGES}"):
        read_digits(tmp_path, "train")
