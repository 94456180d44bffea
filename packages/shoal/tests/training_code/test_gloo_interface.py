"""Every script that opens a gloo group opens it on the interface that SageMaker names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import shoal
from local_kit.runtime import Runtime
from tests.repository import ROOT

TEMPLATE = Path(shoal.__file__).parent / "template"
SCRIPTS = {
    "mnist": [ROOT / "training_code/mnist/pytorch"],
    "language": [ROOT / "training_code/language/pytorch"],
    "houses": [ROOT / "training_code/houses/pytorch"],
    "new": [
        TEMPLATE / f"{part}/source"
        for part in ("common", "pytorch", "pytorch-classification", "classification")
    ],
}
OPEN = """
import os
import ranks
with ranks.joined("gloo", os.environ):
    pass
"""
TRAIN = ["train.py", "--train-dir", "none", "--model-dir", "none"]
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"} | {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


@pytest.mark.parametrize("workload", SCRIPTS)
@pytest.mark.parametrize(
    ("variables", "is_used"),
    [
        ({"SM_NETWORK_INTERFACE_NAME": "nowhere0"}, True),
        ({"SM_NETWORK_INTERFACE_NAME": "nowhere0", "GLOO_SOCKET_IFNAME": "lo"}, False),
    ],
)
def test_gloo_is_told_the_interface_unless_the_user_tells_another(
    runtime: Runtime, tmp_path: Path, workload: str, variables: dict[str, str], is_used: bool
) -> None:
    """Of an interface that does not exist gloo says so, by name."""
    for folder in SCRIPTS[workload]:
        shutil.copytree(folder, tmp_path / "code", dirs_exist_ok=True)
    has_ranks = (tmp_path / "code/ranks.py").exists()
    process = subprocess.run(
        runtime.alone(*(["-c", OPEN] if has_ranks else TRAIN)),
        cwd=tmp_path / "code",
        env={"PATH": "/usr/bin:/bin", **ALONE, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ("nowhere0" in process.stderr) is is_used, process.stderr
