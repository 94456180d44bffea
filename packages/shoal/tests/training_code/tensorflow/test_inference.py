"""The endpoint's two functions answer JSON and npy requests as PyTorch's do, and refuse the rest
with the reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256
from tests.training_code.mnist import DATA
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import CODE, JOB_NAME
from tests.training_code.test_evaluate import pack

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


def test_an_answer_names_the_job_and_the_content_of_the_model_it_comes_from(
    answers: dict[str, Any], alone: Trained, tmp_path: Path
) -> None:
    pack(alone.job.model_dir, tmp_path / "model.tar.gz")
    with (tmp_path / "model.tar.gz").open("rb") as archive:
        digest = content_sha256(archive)
    assert answers["json"]["model"] == {"training_job_name": JOB_NAME, "content_sha256": digest}


def digest_after(change: Callable[[Path], object], alone: Trained, model: Path) -> str:
    """Return what inference.py says of a copy of the model that was changed."""
    shutil.copytree(alone.job.model_dir, model)
    change(model)
    program = "import sys; from pathlib import Path; from inference import content_sha256 as digest"
    outcome = subprocess.run(
        [sys.executable, "-c", f"{program}; print(digest(Path(sys.argv[1])))", str(model)],
        cwd=CODE,
        capture_output=True,
        text=True,
        check=False,
    )
    return outcome.stdout.strip() or outcome.stderr.strip().splitlines()[-1]


def test_another_graph_with_the_same_variables_is_another_model(
    answers: dict[str, Any], alone: Trained, tmp_path: Path
) -> None:
    honest = digest_after(lambda _: None, alone, tmp_path / "honest")
    assert honest == answers["json"]["model"]["content_sha256"]
    graph = "1/saved_model.pb"
    other = digest_after(lambda model: (model / graph).write_bytes(b"x"), alone, tmp_path / "other")
    assert len(other) == len(honest)
    assert other != honest


def test_a_second_version_which_the_container_would_serve_instead_is_refused(
    alone: Trained, tmp_path: Path
) -> None:
    said = digest_after(
        lambda model: shutil.copytree(model / "1", model / "2"), alone, tmp_path / "model"
    )
    assert said.endswith("model holds version 2 besides 1: which one serves?")


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
