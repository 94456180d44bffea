"""Every distributed script learns what train.py learns: the same losses where its steps are
synchronous.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_kit.runtime import Runtime, finish
from tests.training_code.conftest import STEPS
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import Job
from tests.training_code.tensorflow.strategies import parameter_server
from tests.training_code.training import PROGRESS, accuracies, losses


@pytest.mark.nightly
def test_two_replicas_give_the_loss_curve_of_one(alone: Trained, two_replicas: Trained) -> None:
    expected = losses(alone.outcome.output)
    assert len(expected) == 2 * STEPS
    assert losses(two_replicas.outcome.output) == pytest.approx(expected, rel=2e-3, abs=2e-4)


@pytest.mark.nightly
def test_two_replicas_reach_the_accuracy_of_one(alone: Trained, two_replicas: Trained) -> None:
    assert accuracies(two_replicas.outcome.output) == pytest.approx(
        accuracies(alone.outcome.output), abs=0.003
    )


@pytest.mark.nightly
def test_only_one_process_prints_metrics_and_says_how_many_compute(two_replicas: Trained) -> None:
    lines = PROGRESS.findall(two_replicas.outcome.output)
    assert (len(lines), {match[-1] for match in lines}) == (2 * STEPS, {"2"})


@pytest.mark.nightly
def test_the_model_is_saved_once_with_the_number_of_replicas(two_replicas: Trained) -> None:
    metadata = json.loads((two_replicas.job.model_dir / "model.json").read_text())
    assert metadata["world_size"] == 2
    assert (two_replicas.job.model_dir / "1" / "saved_model.pb").is_file()


@pytest.mark.nightly
def test_parameter_servers_train_asynchronously_and_end_with_the_chief(
    tensorflow: Runtime, dataset: Path, tmp_path: Path
) -> None:
    job = Job(tensorflow, dataset, tmp_path)
    with parameter_server(job, "--epochs", "6") as (chief, others):
        outcome = finish(chief)
        assert [finish(process).returncode for process in others] == [0, 0, 0], outcome.output
    assert outcome.returncode == 0, outcome.output
    assert accuracies(outcome.output)[-1] > 0.7
    assert json.loads((job.model_dir / "model.json").read_text())["world_size"] == 2


def test_a_parameter_server_job_of_one_host_is_refused(
    tensorflow: Runtime, dataset: Path, tmp_path: Path
) -> None:
    outcome = Job(tensorflow, dataset, tmp_path).alone("train_parameter_server.py")
    assert outcome.returncode != 0
    assert (
        "TF_CONFIG is not set: the toolkit starts parameter servers only in jobs of two or more"
        in outcome.output.splitlines()[-1]
    )
