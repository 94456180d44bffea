"""Ranks join, share gradients, and agree on a precision; every script opens a gloo group on the
interface that SageMaker names.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from shoal.settings.parsing.plain_files import archive_files
from shoal.verbs.new_workload import write_workload
from tests.repository import ROOT
from tests.training_code.training import CODE, Job

SCRIPTS = Path(__file__).parents[1] / "scripts"
EXPECTED = {"both are faster in bf16": "bf16", "the second rank is not": "fp32"}
"""Case -> what each of two ranks chooses."""


@pytest.mark.nightly
def test_ranks_choose_bf16_if_all_are_faster_in_it(runtime: Runtime, tmp_path: Path) -> None:
    outcome = runtime.run(
        runtime.torchrun(2, SCRIPTS / "choose_precision.py", CODE, tmp_path), tmp_path
    )
    assert outcome.returncode == 0, outcome.output
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert ranks == [EXPECTED, EXPECTED]


@pytest.mark.nightly
def test_the_choice_is_in_log_and_metadata(own: Job) -> None:
    job = replace(own, options=("--epochs", "1"))
    (line,) = [each for each in job.run().output.splitlines() if each.startswith("precision=")]
    metadata = json.loads((job.model_dir / "model.json").read_text())
    assert line.startswith(f"precision={metadata['precision']}, ")


def test_gradients_are_the_mean_of_any_number_of_ranks(runtime: Runtime, tmp_path: Path) -> None:
    script = SCRIPTS / "average_gradients.py"
    outcome = runtime.run(runtime.alone(script), tmp_path)
    assert outcome.returncode == 0, outcome.output
    differences = json.loads(outcome.output.splitlines()[-1])
    assert list(differences) == ["2", "3", "7"]
    assert max(max(each) for each in differences.values()) < 1e-6


def test_a_step_that_cannot_be_a_graph_is_run_as_it_is_with_one_line(
    runtime: Runtime, tmp_path: Path
) -> None:
    outcome = runtime.run(runtime.alone(SCRIPTS / "run_as_graph.py"), tmp_path)
    assert outcome.returncode == 0, outcome.output
    answer = json.loads(outcome.output.splitlines()[-1])
    assert answer["graph"] == pytest.approx(answer["as it is"], rel=1e-6)
    (line,) = answer["said"]
    assert line.startswith("graph=none, steps are launched kernel by kernel: ")
    assert answer["resumed"] == [["float", False, 1.0], ["Tensor", True, 1.0]]


def test_smddps_own_variable_counts_as_the_local_rank(runtime: Runtime, tmp_path: Path) -> None:
    ask = (
        "from common import ranks; print(ranks._local({'WORLD_SIZE': '8', 'RANK': '3',"
        " 'SMDATAPARALLEL_LOCAL_RANK': '3'}))"
    )
    outcome = runtime.run(runtime.alone("-c", ask), tmp_path)
    assert outcome.output.splitlines()[-1] == "(3, 1)"


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
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
ALONE |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


@pytest.mark.parametrize("workload", ["mnist", "language", "new"])
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
