"""What a training sends to MLflow, and that it does without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from tests.repository import ROOT

CODE = str(ROOT / "training_code")
SAY = "from common import tracking; [tracking.log(f'epoch={each} loss=0.5') for each in (1, 2, 3)]"
MEASURE = "from common import tracking; import sys; print(tracking.measured(sys.argv[1]))"


def said(python: str, program: str, *arguments: str, **variables: str) -> str:
    """Return what a program prints that ends well."""
    command, environment = [python, "-c", program, *arguments], {"PYTHONPATH": CODE, **variables}
    output = subprocess.check_output(command, env=environment, stderr=subprocess.STDOUT, text=True)
    return output.strip()


@pytest.mark.parametrize(
    ("line", "measured"),
    [
        ("epoch=2 step=3/9 loss=0.5 lr=1e-3", "({'epoch': 2.0, 'loss': 0.5, 'lr': 0.001}, 12)"),
        ("step=40/120 loss=-1.25", "({'loss': -1.25}, 40)"),
        ("epoch=3 test_accuracy=0.9914", "({'epoch': 3.0, 'test_accuracy': 0.9914}, 3)"),
        ("epoch=1 loss=nan images=1,000", "({'epoch': 1.0}, 1)"),
        ("saved the model in /opt/ml/model", "({}, 0)"),
    ],
)
def test_a_line_has_numbers_and_a_step_over_all_epochs(line: str, measured: str) -> None:
    assert said(sys.executable, MEASURE, line) == measured


def test_without_an_address_nothing_is_sent_or_said() -> None:
    assert said(sys.executable, SAY) == ""


@pytest.mark.parametrize("has_client", [False, True])
def test_without_server_or_client_a_training_goes_on_after_one_line(
    runtime: Runtime, has_client: bool, tmp_path: Path
) -> None:
    python = str(runtime.python) if has_client else sys.executable
    unused = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "HOME": str(tmp_path)}
    lines = [each for each in said(python, SAY, **unused).splitlines() if "no more of this" in each]
    assert len(lines) == 1
    assert ("No module named 'mlflow'" in lines[0]) is not has_client
