"""The smoke test of MNIST judges an endpoint by its answers. That of any workload sends its
requests as they are, and its expectations judge.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_kit.tables import rows
from shoal.constructs.pipeline.pipeline_functions import REQUESTS, packed_files, smoke_test_file
from tests.functions.invocation import FUNCTIONS, Outcome, Request, invoke, serving
from tests.functions.make_digits import digits
from tests.repository import CHECKOUT


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


@pytest.mark.parametrize(("spoilt", "why"), rows(__file__, "cases.yaml", "spoilt"))
def test_an_answer_in_another_form_fails(
    endpoint: Endpoint, spoilt: dict[str, Any], why: str
) -> None:
    endpoint.spoil = lambda _, answer: answer | spoilt
    assert why in _test(endpoint).error


def test_an_endpoint_that_refuses_fails_with_its_message() -> None:
    refusal = {"__type": "ValidationError", "message": "Endpoint shoal-mnist-dev not found."}
    with serving(lambda _: (400, json.dumps(refusal).encode())) as url:
        assert "not found" in invoke(PACKAGE, EVENT, endpoint_url=url, module="step").error


PRICES_EVENT = {
    "endpoint_name": "shoal-prices-dev-abcdefghijkl",
    "training_job_name": "job",
    "content_sha256": CONTENT,
    "max_latency_ms": 5000,
}
NPY = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}\n\x00\xff"
ROW = b"0.5,1,-2\n"


@dataclass(frozen=True)
class Workload:
    """A regression whose smoke test asks for one price."""

    folder: Path
    function: str = ""
    remaining_ms: int = 60_000

    def __call__(self, answer: Any, test: dict[str, Any], row: bytes = ROW) -> Outcome:
        """Return the outcome of `test` where the endpoint answers everything with `answer`."""
        return self.outcome(test, lambda _: (200, _bytes(answer)), row)

    def outcome(self, test: dict[str, Any], answer: Any, row: bytes = ROW) -> Outcome:
        root = self.folder / "training_code" / "prices"
        root.mkdir(parents=True)
        (root / "row.csv").write_bytes(row)
        (root / "row.npy").write_bytes(NPY)
        (root / "row.json").write_text("[1]")
        (root / "smoke.py").write_text(self.function)
        (root / "pytorch").mkdir()
        gates = [{"metric": "rmse", "at_most": 60}]
        keys = {"name": "prices", "frameworks": {"pytorch": {}}, "gates": gates}
        text = yaml.safe_dump(keys | {"smoke_test": test})
        (root / "workload.yaml").write_text(text)
        packed = package(self.folder, "prices", self.folder)
        with serving(answer) as url:
            own = partial(invoke, module="step", remaining_ms=self.remaining_ms)
            return own(packed, PRICES_EVENT, endpoint_url=url)


def _bytes(answer: Any) -> bytes:
    model = {"training_job_name": "job", "content_sha256": CONTENT}
    return answer if isinstance(answer, bytes) else json.dumps({"model": model, **answer}).encode()


def _expect(expectation: Any, expression: str = "predictions[0]") -> dict[str, Any]:
    return {"requests": [{"body": "row.json", "expect": {expression: expectation}}]}


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    return Workload(tmp_path)


@pytest.mark.parametrize(
    ("said", "expectation", "problem"), rows(__file__, "cases.yaml", "expectations")
)
def test_an_expectation_judges_what_its_expression_finds(
    workload: Workload, said: Any, expectation: Any, problem: str
) -> None:
    outcome = workload({"predictions": [said]}, _expect(expectation))
    assert problem in outcome.error
    assert bool(problem) == bool(outcome.error)


FIRST, SUM, TEXT = "predictions[0]", "ceil(sum(predictions))", "to_number(predictions[0])"


@pytest.mark.parametrize(
    ("said", "expression", "says"),
    [
        ("Infinity", FIRST, "answered row.json with what is not application/json (ValueError('Inf"),
        ("1e999", FIRST, "(ValueError('1e999 is no finite number'))"),
        ("NaN", "length(predictions)", "(ValueError('NaN is no finite number'))"),
        ("1e308, 1e308", SUM, "ceil(sum(predictions)) has no value: "),
        ('"Infinity"', TEXT, "to_number(predictions[0]) is Infinity, must be within 1 of 1"),
        ("9" * 4000, FIRST, "predictions[0] is 9999"),
        ("[" * 500 + "1" + "]" * 500, FIRST, "predictions[0] is [[[["),
        ("[" * 100_000, FIRST, "an answer is nested too deeply to be read"),
    ],
    ids=range(8),
)
def test_an_answer_that_no_program_can_judge_fails_in_one_sentence(
    workload: Workload, said: str, expression: str, says: str
) -> None:
    answer = f'{{"model": {{"content_sha256": ["4f"]}}, "predictions": [{said}]}}'.encode()
    error = workload(answer, _expect({"near": 1, "within": 1}, expression)).error
    assert error.startswith("SmokeTestError: ")
    assert says in error


@pytest.mark.parametrize(
    ("pause_s", "says"), [(3, "an answer had not ended when"), (0, "did not answer row.json: Conn")]
)
def test_an_answer_that_does_not_end_is_told_in_time(
    tmp_path: Path, pause_s: float, says: str
) -> None:
    def answer(_: Request) -> tuple[int, bytes]:
        time.sleep(pause_s)
        raise ConnectionResetError

    test = {"requests": [{"body": "row.json"}]}
    assert says in Workload(tmp_path, remaining_ms=6_000).outcome(test, answer).error


def test_csv_and_bytes_go_out_as_they_are_and_a_csv_answer_is_a_list_of_rows(
    workload: Workload,
) -> None:
    requests: list[Request] = []

    def answer(request: Request) -> tuple[int, bytes]:
        requests.append(request)
        return 200, b"152.3,low,0,inf,1_0\n" if request.headers["Accept"] == "text/csv" else _bytes(
            {}
        )

    csv_request = {"body": "row.csv", "content_type": "text/csv", "accept": "text/csv"}
    npy_request = {"body": "row.npy", "content_type": "application/x-npy"}
    expected = {"[0][0]": {"near": 150, "within": 3}, "[0][1]": "low", "length(@)": 1}
    expected["[0][2]"] = "0"  # a label that looks like a number
    expected |= {f"type([0][{column}])": "string" for column in (3, 4)}
    outcome = workload.outcome(
        {"requests": [csv_request | {"expect": expected}, npy_request]}, answer
    )
    assert outcome.error == ""
    assert [(each.headers["Content-Type"], each.body) for each in requests] == [
        ("text/csv", ROW),
        ("application/x-npy", NPY),
    ]


def test_what_is_no_json_is_shown(workload: Workload) -> None:
    error = workload(b"<html>", {"requests": [{"body": "row.json"}]}).error
    assert "answered row.json with what is not application/json" in error
    assert "<html>" in error


def test_an_answer_of_another_form_fails_whatever_must_pass_says(workload: Workload) -> None:
    requests = [{"body": "row.json", "expect": {"a": 1}}, {"body": "row.json"}]
    test = {"requests": requests, "must_pass": 1, "every_answer": {"length(predictions)": 1}}
    error = workload({"predictions": []}, test).error
    told = "2 of 2 answers have another form (row.json: length(predictions) is 0, must be 1"
    assert told in error


def test_the_step_reports_what_is_shown_up_to_the_length_of_an_output(workload: Workload) -> None:
    requests = [{"body": "row.json"}] * 100
    result = workload({"price": 1.23456}, {"requests": requests, "show": {"price": "price"}}).result
    answers = json.loads(result["answers"])
    assert answers[0] == {"request": "row.json", "passed": True, "shown": {"price": 1.2346}}
    assert len(result["answers"]) <= 1024
    assert 10 < len(answers) < 100


def test_what_an_answer_does_not_have_is_not_shown(workload: Workload) -> None:
    show = {"price": "predictions[0] || [0][0]", "none": "nothing", "null": "predictions[1]"}
    test = {"requests": [{"body": "row.json"}], "show": show}
    result = workload({"predictions": [0.0, None]}, test).result
    assert json.loads(result["answers"])[0]["shown"] == {"price": 0.0}


OWN = {"requests": [{"body": "row.json"}], "function": "smoke.py"}
RISES = """
import json

def check(ask):
    small, large = (json.loads(ask(json.dumps([n]).encode()))["price"] for n in (1, 2))
    return [] if small < large else [f"{n} costs {small}, more must cost more" for n in (1, 2)]
"""


def test_the_workloads_own_function_asks_and_judges(tmp_path: Path) -> None:
    def priced(request: Request) -> tuple[int, bytes]:
        return 200, _bytes({"price": json.loads(request.body)[0]})

    assert Workload(tmp_path, RISES).outcome(OWN, priced).error == ""


def test_what_the_function_finds_wrong_fails_the_step(tmp_path: Path) -> None:
    error = Workload(tmp_path, RISES)({"price": 3}, OWN).error
    assert error == (
        "SmokeTestError: the workload's own check: 1 costs 3, more must cost more; 2 costs 3, more"
        " must cost more"
    )


@pytest.mark.parametrize(("body", "problem"), rows(__file__, "cases.yaml", "functions"))
def test_a_function_that_fails_itself_fails_the_step(
    tmp_path: Path, body: str, problem: str
) -> None:
    error = Workload(tmp_path, f"def check(ask):\n    {body}\n")({}, OWN).error
    assert f"own check {problem}" in error


def test_an_endpoint_that_refuses_the_functions_request_is_named(tmp_path: Path) -> None:
    def answer(request: Request) -> tuple[int, bytes]:
        return (200, _bytes({})) if request.body == b"[1]" else (400, b"{}")

    function = "def check(ask):\n    return [] if ask(b'x', 'text/csv') else ['empty']\n"
    error = Workload(tmp_path, function).outcome(OWN, answer).error
    assert "shoal-prices-dev-abcdefghijkl refused the function's request" in error


def test_a_workload_without_a_function_has_one_file(tmp_path: Path) -> None:
    content = smoke_test_file("mnist", CHECKOUT)
    assert packed_files(content) == {REQUESTS: content}
