"""One workload runs from `cdk deploy` to its teardown on this machine, as `make demo` runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.timeout(1800)
def test_the_demo_trains_serves_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shoal.cli", "--root", str(ROOT), "demo"]
    result = subprocess.run(
        [*command, "--output", str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert (summary["status"], summary["left_behind"]) == ("Succeeded", [])
