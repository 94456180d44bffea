"""Every distributed script learns what train.py learns: the same losses where its steps are
synchronous.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from local_kit.runtime import Runtime, finish
from tests.training_code.conftest import STEPS
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import CODE, Job, parameter_server
from tests.training_code.training import PROGRESS, accuracies, losses


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["smddp", "horovod", "mirrored", "multi_worker_mirrored"])
def test_two_replicas_learn_what_one_learns(
    alone: Trained, undisturbed: Callable[[str], Trained], strategy: str
) -> None:
    """One process prints metrics and saves the model."""
    two_replicas = undisturbed(strategy)
    expected, output = alone.outcome.output, two_replicas.outcome.output
    assert len(losses(expected)) == 2 * STEPS
    assert losses(output) == pytest.approx(losses(expected), rel=2e-3, abs=2e-4)
    assert accuracies(output) == pytest.approx(accuracies(expected), abs=0.003)
    lines = PROGRESS.findall(output)
    assert (len(lines), {match[-1] for match in lines}) == (2 * STEPS, {"2"})
    metadata = json.loads((two_replicas.job.model_dir / "model.json").read_text())
    assert metadata["world_size"] == 2
    assert (two_replicas.job.model_dir / "1" / "saved_model.pb").is_file()


@pytest.mark.nightly
def test_parameter_servers_train_asynchronously_and_end_with_the_chief(job: Job) -> None:
    with parameter_server(job, "--epochs", "6") as (chief, others):
        outcome = finish(chief)
        assert [finish(process).returncode for process in others] == [0, 0, 0], outcome.output
    assert outcome.returncode == 0, outcome.output
    assert accuracies(outcome.output)[-1] > 0.7
    assert json.loads((job.model_dir / "model.json").read_text())["world_size"] == 2


def test_a_parameter_server_job_of_one_host_is_refused(job: Job) -> None:
    outcome = job.alone("train_parameter_server.py")
    assert outcome.returncode != 0
    assert (
        "TF_CONFIG is not set: the toolkit starts parameter servers only in jobs of two or more"
        in outcome.output.splitlines()[-1]
    )


def test_every_optimizer_makes_its_variables_at_once(tensorflow: Runtime, tmp_path: Path) -> None:
    """TensorFlow 2.9.2 and 2.10.1 have those that are called legacy today, without build()."""
    script = Path(__file__).parent / "scripts" / "build_optimizers.py"
    command = tensorflow.alone(script, CODE)
    counts = json.loads(tensorflow.run(command, tmp_path).output.splitlines()[-1])
    assert counts["legacy"] == [5, 5]  # the count of steps, and two moments a weight
    assert counts["new"][0] == counts["new"][1] >= 5
