"""Every distributed script learns what train.py learns: the same losses where its steps are
synchronous.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from local_kit.runtime import finish
from tests.training_code.conftest import STEPS
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import Job, parameter_server
from tests.training_code.training import PROGRESS, accuracies, losses

EQUAL = {"rel": 2e-3, "abs": 2e-4}
ROUNDED = {"rel": 0.5, "abs": 0.1}
"""bfloat16 has 8 bits: of a learning that begins, only the course stays the same."""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "flags", "replicas", "close"),
    [
        ("smddp", "", 2, EQUAL),
        ("horovod", "", 2, EQUAL),
        ("mirrored", "", 2, EQUAL),
        ("multi_worker_mirrored", "", 2, EQUAL),
        ("mirrored", "--precision bf16", 2, ROUNDED),
        ("none", "--xla True", 1, EQUAL),
        ("none", "--deterministic False", 1, EQUAL),
    ],
)
def test_every_way_learns_what_one_process_learns(
    alone: Trained,
    undisturbed: Callable[..., Trained],
    strategy: str,
    flags: str,
    replicas: int,
    close: dict[str, Any],
) -> None:
    """One process prints metrics and saves the model."""
    trained = undisturbed(strategy, *flags.split())
    expected, output = alone.outcome.output, trained.outcome.output
    assert len(losses(expected)) == 2 * STEPS
    assert losses(output) == pytest.approx(losses(expected), **close)
    assert accuracies(output) == pytest.approx(accuracies(expected), abs=close["rel"])
    lines = PROGRESS.findall(output)
    assert (len(lines), {match[-1] for match in lines}) == (2 * STEPS, {str(replicas)})
    metadata = json.loads((trained.job.model_dir / "model.json").read_text())
    assert metadata["world_size"] == replicas
    assert (trained.job.model_dir / "1" / "saved_model.pb").is_file()


@pytest.mark.nightly
def test_parameter_servers_train_asynchronously_and_end_with_the_chief(job: Job) -> None:
    with parameter_server(job, "--epochs", "6") as (chief, others):
        outcome = finish(chief)
        assert outcome.returncode == 0, outcome.output
        assert [finish(process).returncode for process in others] == [0, 0, 0]
    assert accuracies(outcome.output)[-1] > 0.7
    assert json.loads((job.model_dir / "model.json").read_text())["world_size"] == 2


def test_a_parameter_server_job_of_one_host_is_refused(job: Job) -> None:
    outcome = job.alone("train_parameter_server.py")
    assert outcome.returncode != 0
    assert (
        "TF_CONFIG is not set: the toolkit starts parameter servers only in jobs of two or more"
        in outcome.output.splitlines()[-1]
    )
