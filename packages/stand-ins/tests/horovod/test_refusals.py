"""The stand-in never takes the place of the real Horovod."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from local_kit.runtime import ROOT

SOURCE = ROOT / "packages" / "stand-ins" / "horovod" / "src"


@pytest.fixture
def with_horovod(tmp_path: Path) -> Path:
    """Return the interpreter of a virtual environment in which pip would list the real Horovod."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    site_packages = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    metadata = site_packages / "horovod-0.28.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n")
    return tmp_path / "venv" / "bin" / "python"


def test_importing_next_to_the_real_horovod_is_refused(with_horovod: Path) -> None:
    answer = subprocess.run(
        [str(with_horovod), "-c", "import horovod"],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert (
        "HorovodConflictError: horovod-local is installed next to the real horovod" in answer.stderr
    )


def test_building_next_to_the_real_horovod_is_refused(with_horovod: Path) -> None:
    answer = subprocess.run(
        [str(with_horovod), "setup.py", "--version"],
        cwd=SOURCE.parent,
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("horovod-local will not be installed over the real horovod")


def test_the_version_and_a_marker_say_that_this_is_not_horovod() -> None:
    code = "import horovod; print(horovod.IS_LOCAL, horovod.__version__.endswith('+local'))"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert answer.stdout == "True True\n"
