"""The smoke test of MNIST judges an endpoint by its answers."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shoal.constructs.pipeline.smoke_test_file import packed_files, smoke_test_file
from tests.functions.invocation import FUNCTIONS, Outcome, Request, invoke, serving
from tests.functions.make_digits import digits
from tests.repository import CHECKOUT
from tests.tables import rows


def package(folder: Path, workload: str = "mnist", root: Path = CHECKOUT) -> Path:
    """Make the package in `folder`; returns its path, which `invoke` takes."""
    packed = folder / "smoke_test"
    shutil.copytree(FUNCTIONS / "smoke_test", packed, ignore=shutil.ignore_patterns("__pycache__"))
    for name, content in packed_files(smoke_test_file(workload, root)).items():
        (packed / name).write_bytes(content)
    return packed


JOB = "pipelines-abcdefghijkl-Train-x1y2z3"
CONTENT = "4f" * 32
DIGITS = digits()
EVENT = {
    "endpoint_name": "shoal-mnist-dev-abcdefghijkl",
    "training_job_name": JOB,
    "content_sha256": CONTENT,
    "max_latency_ms": 5000,
}
LABELS = {json.dumps(digit["pixels"]): digit["label"] for digit in DIGITS}


def _prediction(label: int) -> dict[str, Any]:
    return {
        "digit": label,
        "probabilities": [0.91 if digit == label else 0.01 for digit in range(10)],
    }


def _model(**changed: str) -> dict[str, str]:
    return {"training_job_name": JOB, "content_sha256": CONTENT, **changed}


@dataclass
class Endpoint:
    """Knows the ten digits; `spoil` changes its answer to a label."""

    delay_s: float = 0.0
    spoil: Callable[[int, dict[str, Any]], Any] = lambda _, answer: answer
    requests: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> tuple[int, bytes]:
        self.requests.append(request)
        time.sleep(self.delay_s)
        label = LABELS[json.dumps(json.loads(request.body)["instances"][0])]
        answer = {"predictions": [_prediction(label)], "model": _model()}
        return 200, json.dumps(self.spoil(label, answer)).encode()


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


_FOLDER = tempfile.TemporaryDirectory(prefix="shoal-tests-")
PACKAGE = package(Path(_FOLDER.name))


def _test(endpoint: Endpoint, **arguments: Any) -> Outcome:
    with serving(endpoint.answer) as url:
        return invoke(PACKAGE, {**EVENT, **arguments}, endpoint_url=url, module="step")


def _wrong(labels: set[int]) -> Callable[[int, dict[str, Any]], Any]:
    """Answer one too high for these labels."""
    return lambda label, answer: (
        answer | {"predictions": [_prediction((label + (label in labels)) % 10)]}
    )


def test_a_right_endpoint_passes_with_the_answers_it_gave(endpoint: Endpoint) -> None:
    """The proven hash is an output, too."""
    result, shown = _test(endpoint).result, {"probability": 0.91, "next": 0.01}
    assert (result["status"], result["content_sha256"]) == ("Passed", CONTENT)
    assert json.loads(result["answers"]) == [
        {"request": f"{label}.json", "passed": True, "shown": {"digit": label, **shown}}
        for label in range(10)
    ]


def test_the_slowest_answer_is_reported(endpoint: Endpoint) -> None:
    endpoint.delay_s = 0.02
    assert 20 <= _test(endpoint).result["slowest_ms"] < 5000


def test_digits_go_to_the_named_endpoint_as_json(endpoint: Endpoint) -> None:
    _test(endpoint)
    path, kind = "/endpoints/shoal-mnist-dev-abcdefghijkl/invocations", "application/json"
    sent = {(each.path, each.headers["Content-Type"]) for each in endpoint.requests}
    assert sent == {(path, kind)}


@dataclass
class Server(Endpoint):
    """A container whose answers name no model, and what SageMaker says of its archive."""

    archive: str = "s3://sealed/model.tar.gz"

    def answer(self, request: Request) -> tuple[int, bytes]:
        described = {
            "DescribeEndpoint": {"EndpointConfigName": "config"},
            "DescribeEndpointConfig": {"ProductionVariants": [{"ModelName": "model"}]},
            "DescribeModel": {"PrimaryContainer": {"ModelDataUrl": self.archive}},
        }
        operation = request.headers.get("X-Amz-Target", "").removeprefix("SageMaker.")
        if operation:
            return 200, json.dumps(described[operation]).encode()
        status, answer = super().answer(request)
        return status, json.dumps({"predictions": json.loads(answer)["predictions"]}).encode()


def test_where_answers_name_no_model_the_sealed_archive_is_the_proof() -> None:
    sealed = {"sealed_archive": Server.archive}
    assert _test(Server(), **sealed).result["content_sha256"] == ""
    error = _test(Server(archive="s3://other/model.tar.gz"), **sealed).error
    assert error == (
        "SmokeTestError: the endpoint has the archive s3://other/model.tar.gz, sealed was"
        " s3://sealed/model.tar.gz"
    )


def test_arguments_of_other_versions_are_ignored(endpoint: Endpoint) -> None:
    assert _test(endpoint, model_data_url="s3://bucket/model.tar.gz").result["status"] == "Passed"


def test_one_wrong_digit_is_tolerated_and_two_are_told(endpoint: Endpoint) -> None:
    endpoint.spoil = _wrong({5})
    assert _test(endpoint).result["status"] == "Passed"
    endpoint.spoil = _wrong({5, 8})
    error = _test(endpoint).error
    told = "8 of 10 requests passed, 9 needed (5.json: predictions[0].digit is 6, must be 5"
    assert told in error
    assert "; 8.json: predictions[0].digit is 9, must be 8" in error


def test_one_instance_with_another_model_is_enough_to_fail(endpoint: Endpoint) -> None:
    other = {"model": _model(content_sha256="0" * 64)}
    endpoint.spoil = lambda label, answer: answer | other if label == 7 else answer
    assert "evaluated was" in _test(endpoint).error


@pytest.mark.parametrize("content", [None, "", "4F" * 32, "4f" * 31])
def test_without_the_hash_of_what_was_evaluated_nothing_is_asked(
    endpoint: Endpoint, content: str | None
) -> None:
    error = _test(endpoint, content_sha256=content).error
    assert "what does evaluation.json say at model.content_sha256?" in error
    assert endpoint.requests == []


def test_an_answer_over_the_limit_fails(endpoint: Endpoint) -> None:
    endpoint.delay_s = 0.05
    assert "40 ms allowed" in _test(endpoint, max_latency_ms=40).error


@pytest.mark.parametrize(("spoilt", "why"), rows(__file__, "smoke_test.yaml", "spoilt"))
def test_an_answer_in_another_form_fails(
    endpoint: Endpoint, spoilt: dict[str, Any], why: str
) -> None:
    endpoint.spoil = lambda _, answer: answer | spoilt
    assert why in _test(endpoint).error


def test_an_endpoint_that_refuses_fails_with_its_message() -> None:
    refusal = {"__type": "ValidationError", "message": "Endpoint shoal-mnist-dev not found."}
    with serving(lambda _: (400, json.dumps(refusal).encode())) as url:
        assert "not found" in invoke(PACKAGE, EVENT, endpoint_url=url, module="step").error
