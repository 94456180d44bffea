"""Whatever programs send is used or refused whole: definitions of pipelines, by the emulator, and
requests to an endpoint, by one ValueError.
"""

import base64
import importlib.util
import io
import json
import subprocess
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from local_kit.control import Wire, require_refusal_or_success, wire
from local_kit.runtime import find_runtime
from local_kit.values import ANYTHING, TEXT, json_safe, spoilt
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment
from tests.repository import CHECKOUT, ROOT

__all__ = ["wire"]  # a fixture

ROLE = "arn:aws:iam::123456789012:role/pipeline"


def definition() -> dict[str, Any]:
    environment = load_environment("dev", ROOT)
    return check(environment).definition


GOOD = definition()
PATHS = ["Steps.Train", "Parameters.Epochs", "Execution.X", "Steps.Evaluate.a[", "Steps."]
EXPRESSIONS = st.one_of(
    ANYTHING,
    st.one_of(TEXT, st.sampled_from(PATHS)).map(lambda path: {"Get": path}),
    ANYTHING.map(lambda value: {"Std:Join": value}),
    ANYTHING.map(lambda value: {"Std:JsonGet": value}),
)


def deploy(wire: Wire, text: str) -> int:
    """Call CreatePipeline, check that a refused definition leaves nothing, and return the HTTP
    status.
    """
    request = {
        "PipelineName": "spoilt",
        "PipelineDefinition": text,
        "RoleArn": ROLE,
        "ClientRequestToken": "0" * 32,
    }
    answer = wire.sagemaker("CreatePipeline", request)
    require_refusal_or_success(answer, text)
    pipeline = wire.sagemaker("DescribePipeline", {"PipelineName": "spoilt"})
    assert (pipeline.status == 200) == (answer.status == 200)
    if answer.status == 200:
        wire.sagemaker("DeletePipeline", {"PipelineName": "spoilt", "ClientRequestToken": "1" * 32})
    return answer.status


@given(document=spoilt(GOOD, EXPRESSIONS))
def test_a_spoilt_definition_is_deployed_or_refused_whole(wire: Wire, document: Any) -> None:
    deploy(wire, json.dumps(json_safe(document)))


@example(text="{}")
@given(text=st.one_of(st.text(max_size=200), ANYTHING.map(json_safe).map(json.dumps)))
def test_what_is_no_definition_at_all_is_refused(wire: Wire, text: str) -> None:
    assert deploy(wire, text.encode("utf-8", "replace").decode()) == 400


CONDITION = {"Type": "Equals", "LeftValue": 1, "RightValue": 1}


def branch(name: str, step: dict[str, Any]) -> dict[str, Any]:
    """Return a condition with this step in its branch."""
    arguments = {"Conditions": [CONDITION], "IfSteps": [step], "ElseSteps": []}
    return {"Name": name, "Type": "Condition", "Arguments": arguments}


def deploy_step(wire: Wire, step: dict[str, Any], *parameters: dict[str, str]) -> int:
    document = {"Version": "2020-12-01", "Metadata": {}, "Parameters": parameters, "Steps": [step]}
    return deploy(wire, json.dumps(document))


def test_a_definition_that_is_nested_without_end_is_refused(wire: Wire) -> None:
    assert deploy(wire, '{"Version":"2020-12-01","Steps":' + "[" * 5000 + "]" * 5000 + "}") == 400
    inner: dict[str, Any] = {"Name": "Last", "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
    for depth in range(150):
        inner = branch(f"C{depth}", inner)
    assert deploy_step(wire, inner) == 400


@pytest.mark.parametrize("name", [{}, {"Name": None}, {"Name": ["Inner"]}])
def test_a_step_of_a_branch_without_a_name_is_refused(wire: Wire, name: dict[str, Any]) -> None:
    inner = {**name, "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
    assert deploy_step(wire, branch("C", inner)) == 400


def test_an_expression_in_the_place_of_a_steps_arguments_is_refused(wire: Wire) -> None:
    step = {"Name": "Train", "Type": "Training", "Arguments": {"Get": "Parameters.Everything"}}
    assert deploy_step(wire, step, {"Name": "Everything", "Type": "String"}) == 400


PARAMETERS = st.lists(st.fixed_dictionaries({"Name": TEXT, "Value": TEXT}), max_size=3)


@given(parameters=PARAMETERS.map(json_safe))
def test_parameters_of_a_start_are_taken_or_refused(
    wire: Wire, parameters: list[dict[str, str]]
) -> None:
    request = {
        "PipelineName": "nobody-deployed-this",
        "PipelineParameters": parameters,
        "ClientRequestToken": "2" * 32,
    }
    require_refusal_or_success(wire.sagemaker("StartPipelineExecution", request), str(parameters))


JUDGE = """
import base64
import json
import sys

sys.path.insert(0, sys.argv[1])
import inference

print("ready", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    try:
        images = inference.input_fn(base64.b64decode(request["body"]), request["content_type"])
        outcome = f"images {tuple(images.shape)} {images.dtype}"
    except ValueError as refused:
        outcome = f"ValueError: {' '.join(str(refused).split())}"
    except Exception as broken:
        outcome = f"{type(broken).__name__}: {broken}"
    print(json.dumps(outcome), flush=True)
"""
"""Runs in an image's Python: a request per line on stdin, what input_fn made of it on stdout."""
Judge = Callable[[bytes, str], str]
IMAGE = [[0] * 28 for _ in range(28)]
ODD: list[object] = [256, -1, 2**63, 10**400, True, None, "7", [], 1.0]
PIXELS = st.one_of(st.integers(), st.floats(), st.sampled_from(ODD))


def npy(
    descr: str = "|u1", shape: str = "(1, 28, 28)", more: bytes = bytes(784), fortran: str = "False"
) -> bytes:
    """A file of NumPy's format with a header of any kind."""
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n" + more


def as_json(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return values.map(json_safe).map(json.dumps).map(str.encode)


JSON_BODIES = st.one_of(
    as_json(spoilt({"instances": [IMAGE]}, st.one_of(ANYTHING, PIXELS))),
    as_json(ANYTHING),
    st.binary(max_size=60),
    st.sampled_from([b"", b"[" * 100_000, b'{"instances": ' + b"[" * 50_000]),
    st.sampled_from([b'{"instances": [[[1e999]]]}', b'{"instances": NaN}', b"\xff\xfe{}"]),
)
DESCRS = ["|u1", "<f4", "<i8", "|O", "|S3", "<M8[s]", "|V8", "x", "<c16", ">u2"]
SHAPES = [f"({first}, 28, 28)" for first in ("1", "0", "-1", "10**9", "99999999999")]
SIZES = (0, 784, 783, 785, 784 * 8)
NPY_BODIES = st.one_of(
    st.builds(
        npy,
        st.sampled_from(DESCRS),
        st.sampled_from([*SHAPES, "(28, 28)", "()", "(1, 28)", "[1]", "'x'"]),
        st.sampled_from([bytes(size) for size in SIZES]),
        st.sampled_from(["False", "True", "0", "None"]),
    ),
    st.binary(max_size=80),
    st.integers(0, 900).map(lambda cut: npy()[:cut]),
)
KNOWN_TYPES = ["application/json", "application/x-npy", "application/json; charset=latin-1"]
TYPES = st.sampled_from([*KNOWN_TYPES, "text/csv", "", "application/", "\x00", "x" * 300])
REQUESTS = st.one_of(
    st.tuples(JSON_BODIES, st.just("application/json")),
    st.tuples(NPY_BODIES, st.just("application/x-npy")),
    st.tuples(st.one_of(JSON_BODIES, NPY_BODIES), TYPES),
)


@pytest.fixture(scope="module")
def pytorch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """input_fn of the PyTorch model, in a process of its image's stand-in."""
    runtime = find_runtime()
    command = runtime.alone("-c", JUDGE, CHECKOUT / "training_code" / "mnist" / "pytorch")
    process = subprocess.Popen(
        command, env=runtime.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    assert stdout.readline() == "ready\n"

    def judge(body: bytes, content_type: str) -> str:
        request = {"body": base64.b64encode(body).decode(), "content_type": content_type}
        stdin.write(f"{json.dumps(request)}\n")
        stdin.flush()
        return str(json.loads(stdout.readline()))

    yield judge
    stdin.close()
    process.wait(30)
    stdout.close()


PROMISES_TERABYTES = npy(shape="(99999999999, 28, 28)", more=b"")


@pytest.fixture(scope="module")
def tensorflow() -> Judge:
    """input_handler of the TensorFlow model, which needs no more than Python."""
    specification = importlib.util.spec_from_file_location(
        "tensorflow_inference", CHECKOUT / "training_code" / "mnist" / "tensorflow" / "inference.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)

    def judge(body: bytes, content_type: str) -> str:
        context = SimpleNamespace(request_content_type=content_type, accept_header=KNOWN_TYPES[0])
        try:
            images = json.loads(module.input_handler(io.BytesIO(body), context))["instances"]
            return f"images {len(images)}"
        except ValueError as refused:
            return f"ValueError: {' '.join(str(refused).split())}"

    return judge


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
@settings(max_examples=3 * settings().max_examples)
@example(sent=(PROMISES_TERABYTES, "application/x-npy"))
@given(sent=REQUESTS)
def test_a_request_is_taken_or_refused(
    request: pytest.FixtureRequest, framework: str, sent: tuple[bytes, str]
) -> None:
    outcome = request.getfixturevalue(framework)(*sent)
    assert outcome.startswith(("images ", "ValueError: ")), outcome
    assert len(outcome) < 2000, "a refusal does not repeat the request"
