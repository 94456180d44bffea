"""A stand-in never takes the place of the library that it stands for."""

import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

from local_kit.commands import ended
from local_kit.runtime import ROOT


class StandIn(NamedTuple):
    """A stand-in, what it is imported as, the library's distribution, and what it says beside it:
    when it is imported, and when it is built.
    """

    folder: str
    module: str
    distribution: str
    import_error: str
    build_error: str


SMDDP = StandIn(
    "smddp",
    "smdistributed.dataparallel",
    "smdistributed-dataparallel",
    "SMDDPLocalConflictError: smddp-local is installed next to AWS's",
    "smddp-local will not be installed over AWS's smdistributed-dataparallel",
)
HOROVOD = StandIn(
    "horovod",
    "horovod",
    "horovod",
    "HorovodConflictError: horovod-local is installed next to the real horovod",
    "horovod-local will not be installed over the real horovod",
)
each_stand_in = pytest.mark.parametrize("stand_in", [SMDDP, HOROVOD], ids=["smddp", "horovod"])


def run(stand_in: StandIn, *command: str | Path) -> subprocess.CompletedProcess[str]:
    source = ROOT / "packages" / "stand-ins" / stand_in.folder / "src"
    variables = {"PYTHONPATH": str(source)}
    return ended(*command, cwd=source.parent, env=variables)


@each_stand_in
def test_beside_the_library_it_is_neither_imported_nor_built(
    stand_in: StandIn, tmp_path: Path
) -> None:
    """In a virtual environment in which pip would list the library."""
    venv.create(tmp_path, with_pip=False, symlinks=True)
    site_packages = next((tmp_path / "lib").glob("python*/site-packages"))
    name = stand_in.distribution
    metadata = site_packages / f"{name.replace('-', '_')}-2.3.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.3.0\n")
    python = tmp_path / "bin" / "python"
    assert stand_in.import_error in run(stand_in, python, "-c", f"import {stand_in.module}").stderr
    built = run(stand_in, python, "setup.py", "--version")
    assert built.returncode == 1
    assert built.stderr.startswith(stand_in.build_error)


@each_stand_in
def test_version_and_marker_say_that_it_is_not_the_library(stand_in: StandIn) -> None:
    code = f"import {stand_in.module} as it; print(it.IS_LOCAL, it.__version__.endswith('+local'))"
    assert run(stand_in, sys.executable, "-c", code).stdout == "True True\n"


def test_smdistributed_stays_a_namespace_that_other_distributions_can_share() -> None:
    code = "import importlib.util; print(importlib.util.find_spec('smdistributed').origin)"
    assert run(SMDDP, sys.executable, "-c", code).stdout == "None\n"
