"""The processing job's script measures what is in model.tar.gz, and refuses archives that are not a
model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Outcome, Runtime
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import CODE, JOB_NAME
from tests.training_code.test_evaluate import pack
from tests.training_code.training import accuracies


@pytest.fixture
def evaluate(tensorflow: Runtime, dataset: Path, tmp_path: Path) -> Callable[[], Outcome]:
    """Run evaluate.py on `tmp_path/model.tar.gz`."""
    options = (
        "--model-dir",
        tmp_path,
        "--test-dir",
        dataset / "test",
        "--output-dir",
        tmp_path / "out",
    )
    return lambda: tensorflow.run(tensorflow.alone(CODE / "evaluate.py", *options), tmp_path)


@pytest.mark.nightly
def test_the_report_holds_the_accuracy_that_training_measured(
    evaluate: Callable[[], Outcome], alone: Trained, tmp_path: Path
) -> None:
    pack(alone.job.model_dir, tmp_path / "model.tar.gz")
    assert evaluate().returncode == 0
    report: dict[str, Any] = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert report["metrics"]["accuracy"]["value"] == pytest.approx(
        accuracies(alone.outcome.output)[-1]
    )
    assert report["metrics"]["images"]["value"] == 1000
    assert (report["model"]["training_job_name"], len(report["predictions_sample"])) == (
        JOB_NAME,
        10,
    )


def test_a_damaged_model_is_refused(
    evaluate: Callable[[], Outcome], alone: Trained, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    (model / "1" / "variables").mkdir(parents=True)
    (model / "model.json").write_text("{}")
    for name in (
        "saved_model.pb",
        "variables/variables.data-00000-of-00001",
        "variables/variables.index",
    ):
        (model / "1" / name).write_bytes((alone.job.model_dir / "1" / name).read_bytes()[:200])
    pack(model, tmp_path / "model.tar.gz")
    assert "holds a damaged model" in evaluate().output


def test_an_archive_without_a_model_is_refused(
    evaluate: Callable[[], Outcome], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.json").write_text("{}")
    pack(tmp_path / "other", tmp_path / "model.tar.gz")
    assert "holds no model: 1/saved_model.pb is missing" in evaluate().output.splitlines()[-1]
