"""Archives are unpacked by every Python the project names, also by those before 3.11.4, whose tarfile has no filters."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from emulator.sagemaker.jobs.storage import DataError, archive, unpack


@pytest.fixture(autouse=True)
def _without_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tarfile, "data_filter")


def test_what_was_packed_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "model" / "code").mkdir(parents=True)
    (tmp_path / "model" / "code" / "inference.py").write_text("pass")
    assert archive(tmp_path / "model", tmp_path / "model.tar.gz")
    unpack(tmp_path / "model.tar.gz", tmp_path / "there")
    assert (tmp_path / "there" / "code" / "inference.py").read_text() == "pass"


def test_a_member_that_reaches_outside_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../escaped"), io.BytesIO())
    with pytest.raises(DataError, match="stays inside"):
        unpack(tmp_path / "model.tar.gz", tmp_path / "there")
    assert not (tmp_path / "escaped").exists()
