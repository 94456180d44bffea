"""Damaged MNIST files are refused with one error that names the file and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from tests.training_code.training import CODE

SCRIPT = Path(__file__).with_name("scripts") / "bad_files.py"
DAMAGES = [
    ("nothing", "2560 digits"),
    ("missing", "train-labels-idx1-ubyte does not exist; the folder holds train-images-idx3-ubyte"),
    ("empty", "train-images-idx3-ubyte is empty: 0 bytes, the header alone has 16"),
    ("no entries", "train-labels-idx1-ubyte is empty: it holds 0 entries"),
    ("truncated", "train-images-idx3-ubyte is truncated: 2007039 bytes for shape (2560, 28, 28)"),
    ("too long", "train-images-idx3-ubyte is too long: 2007041 bytes"),
    ("wrong magic", "is not the expected idx file: magic number 0x00000801, not 0x00000803"),
    ("gzip", "(it is gzip-compressed: unpack it first)"),
    ("label", "label 10 is outside 0..9"),
    ("fewer labels", "2560 images but 7 labels"),
    ("other size", "images are 14x28 pixels, not 28x28"),
]


@pytest.fixture(scope="module")
def answers(
    runtime: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bad")
    outcome = runtime.run(
        runtime.alone(SCRIPT, CODE, dataset / "train", folder, folder / "answer.json"), folder
    )
    assert outcome.returncode == 0, outcome.output
    errors: dict[str, str] = json.loads((folder / "answer.json").read_text())
    return errors


@pytest.mark.parametrize(
    ("damage", "message"),
    DAMAGES,
)
def test_what_is_wrong_with_a_file_is_said(
    answers: dict[str, str], damage: str, message: str
) -> None:
    assert message in answers[damage]
