"""A user's mistake is one clear error, on every number of ranks, and a lost rank ends the job
instead of hanging it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from local_kit.runtime import Runtime, finish
from tests.training_code.training import CODE, Job

SPOILT = Path(__file__).with_name("scripts") / "save_spoilt_weights.py"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--batch-size", "5000"),
            "ValueError: global batch size 5000 is larger than the training set (2560 images)",
        ),
        (("--learning-rate", "1e30"), "try a smaller --learning-rate"),
        (("--epochs", "0"), "train.py: error: argument --epochs: 0 is not a positive number"),
        (("--batchsize", "8"), "train.py: error: unrecognized arguments: --batchsize 8"),
    ],
)
def test_a_wrong_option_is_one_clear_error(
    runtime: Runtime, dataset: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = Job(runtime, dataset, tmp_path, options=options).run()
    assert outcome.returncode != 0
    assert message in outcome.output.splitlines()[-1]


def test_a_global_batch_that_the_ranks_cannot_share_is_refused(
    runtime: Runtime, dataset: Path, tmp_path: Path
) -> None:
    job = Job(
        runtime, dataset, tmp_path, launcher="mpirun", ranks=2, options=("--batch-size", "255")
    )
    outcome = job.run()
    assert outcome.returncode != 0
    assert (
        "ValueError: global batch size 255 is not divisible by the world size 2" in outcome.output
    )


def test_a_missing_channel_names_its_variable(runtime: Runtime, tmp_path: Path) -> None:
    job = Job(
        runtime, tmp_path, tmp_path, environment={"SM_CHANNEL_TRAIN": str(tmp_path / "nowhere")}
    )
    assert (
        "nowhere/train-images-idx3-ubyte does not exist; the folder holds nothing"
        in job.run().output.splitlines()[-1]
    )


def test_mpirun_without_smddprun_is_explained(
    runtime: Runtime, dataset: Path, tmp_path: Path
) -> None:
    job = Job(runtime, dataset, tmp_path, environment={"OMPI_COMM_WORLD_SIZE": "2"})
    assert (
        "ValueError: mpirun started this process without smddprun"
        in job.run().output.splitlines()[-1]
    )


def test_a_rank_that_cannot_know_its_gpu_is_an_error(
    runtime: Runtime, dataset: Path, tmp_path: Path
) -> None:
    job = Job(runtime, dataset, tmp_path, environment={"WORLD_SIZE": "2", "RANK": "1"})
    assert (
        "ValueError: the launcher gave this process a WORLD_SIZE but no LOCAL_RANK"
        in job.run().output.splitlines()[-1]
    )


def test_smddps_own_variable_counts_as_the_local_rank(runtime: Runtime, tmp_path: Path) -> None:
    ask = (
        "import ranks; print(ranks._local({'WORLD_SIZE': '8', 'RANK': '3',"
        " 'SMDATAPARALLEL_LOCAL_RANK': '3'}))"
    )
    outcome = runtime.run(runtime.alone("-c", ask), tmp_path, {"PYTHONPATH": str(CODE)})
    assert outcome.output.splitlines()[-1] == "(3, 1)"


def test_weights_that_are_no_numbers_are_not_saved(runtime: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    outcome = runtime.run(runtime.alone(SPOILT, CODE, folder), tmp_path)
    assert outcome.output.splitlines()[-1].startswith(
        "ValueError: the weights are not finite, no model is saved"
    )
    assert list(folder.glob("*")) == []


def test_a_killed_rank_fails_the_job(runtime: Runtime, dataset: Path, tmp_path: Path) -> None:
    job = Job(
        runtime,
        dataset,
        tmp_path,
        launcher="mpirun",
        ranks=2,
        options=("--epochs", "50", "--log-every", "1"),
    )
    process = job.start()
    assert process.stdout
    next(line for line in process.stdout if "step=3/" in line)
    ranks = subprocess.run(
        ["pgrep", "--parent", str(process.pid)], capture_output=True, text=True
    ).stdout.split()
    os.kill(int(ranks[-1]), signal.SIGKILL)
    assert finish(process).returncode != 0
    assert not job.model_dir.exists()
