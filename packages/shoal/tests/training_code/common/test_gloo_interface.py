"""Every script that opens a gloo group opens it on the interface that SageMaker names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from shoal.settings.parsing.shared_code import archive_files
from shoal.verbs.new_workload import write_workload
from tests.repository import ROOT

SCRIPTS = ["mnist", "language", "new"]
OPEN = """
import os
try:
    from common import ranks
except ImportError:
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
    folder = ROOT / "training_code" / workload / "pytorch"
    if workload == "new":
        folder = tmp_path / write_workload(tmp_path, workload, "classification")[0] / "pytorch"
    for name, file in archive_files(folder).items():
        (tmp_path / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tmp_path / "code" / name)
    has_ranks = list(tmp_path.rglob("ranks.py"))
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
