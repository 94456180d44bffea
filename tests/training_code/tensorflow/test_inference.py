"""The endpoint's two functions answer JSON and npy requests as PyTorch's do, and refuse the rest
with the reason.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from local.tests.smddp.runtime import Runtime
from tests.training_code.mnist import DATA
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import JOB_NAME

SCRIPT = Path(__file__).with_name("scripts") / "send_requests.py"


@pytest.fixture(scope="module")
def answers(
    tensorflow: Runtime, alone: Trained, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("requests")
    images = dataset / "test" / "t10k-images-idx3-ubyte"
    outcome = tensorflow.run(
        tensorflow.alone(SCRIPT, alone.job.model_dir, images, folder / "answer.json"), folder
    )
    assert outcome.returncode == 0, outcome.output
    answers: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return answers


def test_real_digits_are_recognised(answers: dict[str, Any]) -> None:
    labels = list((DATA / "t10k-labels-idx1-ubyte").read_bytes()[8:18])
    right = [
        item["digit"] == label
        for item, label in zip(answers["json"]["predictions"], labels, strict=True)
    ]
    assert sum(right) >= 8


def test_probabilities_of_an_answer_sum_to_one(answers: dict[str, Any]) -> None:
    assert [sum(item["probabilities"]) for item in answers["json"]["predictions"]] == pytest.approx(
        [1.0] * 10
    )


def test_an_answer_names_the_job_and_the_weights_it_comes_from(
    answers: dict[str, Any], alone: Trained
) -> None:
    weights = alone.job.model_dir / "1" / "variables" / "variables.data-00000-of-00001"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert answers["json"]["model"] == {"training_job_name": JOB_NAME, "weights_sha256": digest}


def test_npy_and_json_give_the_same_probabilities(answers: dict[str, Any]) -> None:
    assert answers["same"]
    assert (answers["npy"]["dtype"], answers["npy"]["shape"]) == ("float32", [10, 10])


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            "content type",
            "content type 'text/csv' is not supported; send application/json or application/x-npy",
        ),
        ("no content type", "content type None is not supported"),
        ("accept", "accept 'image/png' is not supported"),
        ("not json", "the request is not JSON"),
        ("no instances", 'the request has no "instances"'),
        ("not npy", "the request is not an npy file of version 1"),
        ("other npy", "an npy request must be uint8 (N, 28, 28) in C order, not <f4 (10, 28, 28)"),
        ("columns first", "an npy request must be uint8 (N, 28, 28) in C order"),
        ("truncated npy", "7839 bytes for shape (10, 28, 28)"),
        ("pickle", "an npy request must be uint8 (N, 28, 28) in C order, not |O (1,)"),
        ("one image", "images must have shape (N, 28, 28) with N >= 1"),
        ("none", "images must have shape (N, 28, 28) with N >= 1"),
        ("ragged", "images must have shape (N, 28, 28) with N >= 1; image 0 has not"),
        ("fractions", "pixels must be integers, not 0.0"),
        ("text", "pixels must be integers, not 'a'"),
        ("range", "pixels must be 0..255, not 300"),
        ("serving fails", "TensorFlow Serving answered 400: no such signature"),
    ],
)
def test_a_bad_request_is_refused_with_the_reason(
    answers: dict[str, Any], request_: str, message: str
) -> None:
    assert message in answers[request_]
