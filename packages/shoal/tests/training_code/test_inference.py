"""The endpoint's four functions answer JSON and npy requests and refuse the rest with the
reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256
from tests.training_code.conftest import Trained
from tests.training_code.mnist import DATA
from tests.training_code.test_evaluate import pack

SCRIPT = Path(__file__).with_name("scripts") / "send_requests.py"


@pytest.fixture(scope="module")
def answers(
    runtime: Runtime, trained: Trained, dataset: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("requests")
    images = dataset / "test" / "t10k-images-idx3-ubyte"
    outcome = runtime.run(
        runtime.alone(SCRIPT, trained.job.model_dir, images, folder / "answer.json"), folder
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


def test_an_answer_names_the_job_and_the_content_of_the_model_it_comes_from(
    answers: dict[str, Any], trained: Trained, tmp_path: Path
) -> None:
    pack(trained.job.model_dir, tmp_path / "model.tar.gz")
    with (tmp_path / "model.tar.gz").open("rb") as archive:
        digest = content_sha256(archive)
    assert answers["json"]["model"] == {
        "training_job_name": "job-of-the-test",
        "content_sha256": digest,
    }


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
        ("accept", "accept 'image/png' is not supported"),
        ("not json", "the request is not JSON"),
        ("no instances", 'the request has no "instances"'),
        ("not npy", "the request is not an npy file"),
        ("pickle", "the request is not an npy file: Object arrays cannot be loaded"),
        ("one image", "images must have shape (N, 28, 28) with N >= 1, not (28, 28)"),
        ("none", "images must have shape (N, 28, 28) with N >= 1, not (0,)"),
        ("ragged", "the rows of an image have different lengths"),
        ("fractions", "pixels must be integers, not float64"),
        ("text", "pixels must be integers"),
        ("range", "pixels must be 0..255"),
    ],
)
def test_a_bad_request_is_refused_with_the_reason(
    answers: dict[str, Any], request_: str, message: str
) -> None:
    assert message in answers[request_]
