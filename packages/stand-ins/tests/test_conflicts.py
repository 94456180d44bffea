"""A stand-in never takes the place of the library that it stands for."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from local_kit.runtime import ROOT


@dataclass(frozen=True)
class StandIn:
    """A stand-in, what it is imported as, and the distribution of the library."""

    folder: str
    module: str
    distribution: str
    beside: str
    """What importing it says beside the library."""
    over: str
    """What building it says."""

    @property
    def source(self) -> Path:
        return ROOT / "packages" / "stand-ins" / self.folder / "src"


STAND_INS = (
    StandIn(
        "smddp",
        "smdistributed.dataparallel",
        "smdistributed-dataparallel",
        "SMDDPLocalConflictError: smddp-local is installed next to AWS's",
        "smddp-local will not be installed over AWS's smdistributed-dataparallel",
    ),
    StandIn(
        "horovod",
        "horovod",
        "horovod",
        "HorovodConflictError: horovod-local is installed next to the real horovod",
        "horovod-local will not be installed over the real horovod",
    ),
)


@pytest.fixture(params=STAND_INS, ids=lambda each: each.folder)
def stand_in(request: pytest.FixtureRequest) -> StandIn:
    found: StandIn = request.param
    return found


@pytest.fixture
def with_library(stand_in: StandIn, tmp_path: Path) -> Path:
    """Return the interpreter of a virtual environment in which pip would list the library."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    site_packages = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    name = stand_in.distribution
    metadata = site_packages / f"{name.replace('-', '_')}-2.3.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.3.0\n")
    return tmp_path / "venv" / "bin" / "python"


def run(stand_in: StandIn, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=stand_in.source.parent,
        env={"PYTHONPATH": str(stand_in.source)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_beside_the_library_is_refused(stand_in: StandIn, with_library: Path) -> None:
    assert stand_in.beside in run(stand_in, with_library, "-c", f"import {stand_in.module}").stderr


def test_building_beside_the_library_is_refused(stand_in: StandIn, with_library: Path) -> None:
    answer = run(stand_in, with_library, "setup.py", "--version")
    assert answer.returncode == 1
    assert answer.stderr.startswith(stand_in.over)


def test_version_and_marker_say_that_it_is_not_the_library(stand_in: StandIn) -> None:
    code = f"import {stand_in.module} as it; print(it.IS_LOCAL, it.__version__.endswith('+local'))"
    assert run(stand_in, sys.executable, "-c", code).stdout == "True True\n"


def test_smdistributed_stays_a_namespace_that_other_distributions_can_share() -> None:
    code = "import importlib.util; print(importlib.util.find_spec('smdistributed').origin)"
    assert run(STAND_INS[0], sys.executable, "-c", code).stdout == "None\n"
