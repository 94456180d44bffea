"""What a job of train.py prints and writes, and how it refuses a user's mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.training_code.conftest import GLOBAL_BATCH, STEPS
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import CODE, JOB_NAME, Job
from tests.training_code.training import EPOCH, PROGRESS, accuracies

SCRIPTS = Path(__file__).with_name("scripts")
SPOILT = SCRIPTS / "save_spoilt_weights.py"


def test_metrics_have_the_form_that_the_metric_definitions_look_for(alone: Trained) -> None:
    lines = [line for line in alone.outcome.output.splitlines() if line.startswith("epoch=")]
    assert len(lines) == 2 * STEPS + 2
    assert all(PROGRESS.fullmatch(line) or EPOCH.fullmatch(line) for line in lines)


# Twenty steps are far from enough for 99 %; guessing gives 0.1.
def test_the_model_learns(alone: Trained) -> None:
    assert accuracies(alone.outcome.output)[-1] > 0.7


def test_the_last_learning_rate_is_almost_zero_and_the_peak_lies_at_the_end_of_the_warm_up(
    alone: Trained,
) -> None:
    rates = [float(match[5]) for match in PROGRESS.finditer(alone.outcome.output)]
    assert rates[int(0.3 * len(rates))] == max(rates) == 0.01
    assert rates[-1] < 0.0002


def test_the_model_folder_is_laid_out_for_tensorflow_serving(alone: Trained) -> None:
    files = {
        str(path.relative_to(alone.job.model_dir))
        for path in alone.job.model_dir.rglob("*")
        if path.is_file()
    }
    saved_model = {
        "1/saved_model.pb",
        "1/fingerprint.pb",
        "1/variables/variables.index",
        "1/variables/variables.data-00000-of-00001",
    }
    assert files == saved_model | {"model.json", "code/inference.py"}
    assert (alone.job.model_dir / "code" / "inference.py").read_bytes() == (
        CODE / "inference.py"
    ).read_bytes()


def test_the_metadata_names_the_job_and_its_settings(alone: Trained) -> None:
    metadata: dict[str, Any] = json.loads((alone.job.model_dir / "model.json").read_text())
    assert (metadata["training_job_name"], metadata["batch_size"], metadata["world_size"]) == (
        JOB_NAME,
        GLOBAL_BATCH,
        1,
    )
    assert metadata["test_accuracy"] == pytest.approx(accuracies(alone.outcome.output)[-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--batch-size", "5000"),
            "ValueError: global batch size 5000 is larger than the training set (2560 images)",
        ),
        pytest.param(
            ("--learning-rate", "1e37", "--log-every", "1"),
            "try a smaller --learning-rate",
            marks=pytest.mark.nightly,
        ),
        (("--epochs", "0"), "train.py: error: argument --epochs: 0 is not a positive number"),
    ],
)
def test_a_wrong_option_is_one_clear_error(
    tensorflow: Runtime, dataset: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = Job(tensorflow, dataset, tmp_path).alone("train.py", *options)
    assert outcome.returncode != 0
    assert message in outcome.output.splitlines()[-1]


def test_weights_that_are_no_numbers_are_not_saved(tensorflow: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    outcome = tensorflow.run(tensorflow.alone(SPOILT, CODE, folder), tmp_path)
    assert outcome.output.splitlines()[-1].startswith(
        "ValueError: the weights are not finite, no model is saved"
    )
    assert list(folder.glob("*")) == []


def test_optimizers_of_every_version_make_their_variables_before_the_first_step(
    tensorflow: Runtime, tmp_path: Path
) -> None:
    """TensorFlow 2.9.2 and 2.10.1 have those that are called legacy today, without build()."""
    command = tensorflow.alone(SCRIPTS / "build_optimizers.py", CODE)
    counts = json.loads(tensorflow.run(command, tmp_path).output.splitlines()[-1])
    assert counts["legacy"] == [5, 5]  # the count of steps, and two moments a weight
    assert counts["new"][0] == counts["new"][1] >= 5
