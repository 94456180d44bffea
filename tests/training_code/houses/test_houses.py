"""The regression: the same dataset each time, a model that passes its own gates on two processes,
and answers that pass its own smoke test.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from config.workload import load_workload
from local.tests.smddp.runtime import Runtime
from shoal.verbs.evaluation import Evaluation
from shoal.verbs.model_archive import content_sha256
from tests.functions.invocation import invoke
from tests.functions.loopback import Request, serving
from tests.functions.smoke_test_package import package
from tests.repository import CHECKOUT
from tests.training_code.test_evaluate import pack

HOUSES = CHECKOUT / "training_code" / "houses"
CODE = HOUSES / "pytorch"
ANSWER = """
import json, sys
from pathlib import Path
import inference

model = inference.model_fn(sys.argv[1])
requests = json.loads(Path(sys.argv[2]).read_text())
answers = [
    inference.output_fn(
        inference.predict_fn(inference.input_fn(each["body"], each["content_type"]), model),
        each["accept"],
    )
    for each in requests
]
Path(sys.argv[3]).write_text(json.dumps(answers))
"""


@dataclass(frozen=True)
class Trained:
    """What a job on two processes left, and what the evaluation of it measured."""

    folder: Path
    output: str
    evaluation: Evaluation

    @property
    def archive(self) -> Path:
        return self.folder / "archive" / "model.tar.gz"


def prepare(folder: Path) -> Path:
    command = [sys.executable, str(HOUSES / "prepare.py"), "--out", str(folder)]
    subprocess.run(command, check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def trained(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("houses")
    data = prepare(folder / "data")
    variables = {
        "SM_CHANNEL_TRAIN": str(data / "train"),
        "SM_MODEL_DIR": str(folder / "model"),
        "TRAINING_JOB_NAME": "job-of-the-test",
    }
    command = runtime.torchrun(2, str(CODE / "train.py"), "--epochs", "40")
    job = runtime.run(command, folder, variables)
    assert job.returncode == 0, job.output
    (folder / "archive").mkdir()
    pack(folder / "model", folder / "archive" / "model.tar.gz")
    options = ("--model-dir", folder / "archive", "--test-dir", data / "test")
    outputs = ("--output-dir", folder / "report")
    measured = runtime.run(runtime.alone(CODE / "evaluate.py", *options, *outputs), folder)
    assert measured.returncode == 0, measured.output
    report = (folder / "report" / "evaluation.json").read_bytes()
    return Trained(folder, job.output, Evaluation.of(report))


def test_the_dataset_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (prepare(tmp_path / name) for name in ("first", "second"))
    for channel in ("train", "test"):
        text = (first / channel / "people.csv").read_bytes()
        assert text == (second / channel / "people.csv").read_bytes()
        assert text.startswith(b"age,sex,bmi,bp,s1,s2,s3,s4,s5,s6,progression\n")


def test_the_model_passes_its_gates(trained: Trained) -> None:
    for gate in load_workload("houses", CHECKOUT).gates:
        value = trained.evaluation.metrics[gate.metric]
        assert gate.at_least is None or value >= gate.at_least
        assert gate.at_most is None or value <= gate.at_most


def test_two_processes_trained_it(trained: Trained) -> None:
    assert "world_size=2" in trained.output


def test_the_report_has_the_digest_that_promotion_computes(trained: Trained) -> None:
    with trained.archive.open("rb") as archive:
        assert trained.evaluation.content_sha256 == content_sha256(archive)


def test_its_answers_pass_its_smoke_test(
    trained: Trained, runtime: Runtime, tmp_path: Path
) -> None:
    sent: list[dict[str, Any]] = [
        {
            "body": (HOUSES / each.body).read_text(),
            "content_type": each.content_type,
            "accept": each.accept,
        }
        for each in load_workload("houses", CHECKOUT).smoke_test.requests
    ]
    (tmp_path / "requests.json").write_text(json.dumps(sent))
    (tmp_path / "answer.py").write_text(ANSWER)
    files = (tmp_path / "requests.json", tmp_path / "answers.json")
    outcome = runtime.run(
        runtime.alone(tmp_path / "answer.py", trained.folder / "model", *files),
        tmp_path,
        {"PYTHONPATH": str(trained.folder / "model" / "code")},
    )
    assert outcome.returncode == 0, outcome.output
    answers = iter(json.loads((tmp_path / "answers.json").read_text()))

    def answer(_: Request) -> tuple[int, bytes]:
        return 200, next(answers).encode()

    event = {
        "endpoint_name": "shoal-examples-houses-abcdefghijkl",
        "training_job_name": "job-of-the-test",
        "content_sha256": trained.evaluation.content_sha256,
        "max_latency_ms": 60_000,
    }
    packed = package(tmp_path / "function", "houses")
    with serving(answer) as url:
        tested = invoke(packed, event, endpoint_url=url, module="step")
    assert not tested.error
    assert tested.result["status"] == "Passed"
