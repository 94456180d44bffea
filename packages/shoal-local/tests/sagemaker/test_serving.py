"""An endpoint with the image of the recipe pytorch-serving: the recipe's own program answers, also
under more requests than it computes at once.
"""

import http.client
import json
import re
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import CODE, configure_container, create, in_service, remove
from local_kit.runtime import ROOT, Runtime
from local_kit.sagemaker_account import PROGRAMS, Account, archive
from shoal_local.runtimes.catalog import runtimes
from shoal_local.sagemaker.core import Settings
from tests.sagemaker.conftest import Services, deployed, npy

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/shoal-mnist-dev-pytorch-serving@sha256:" + (
    "0" * 64
)
STREAMING = (PROGRAMS / "streaming.py").read_bytes()
# no input_fn and no output_fn: the toolkit's own are used
DEFAULTS = (
    b"def model_fn(model_dir):\n  return 3\ndef predict_fn(data, model):\n  return data * model\n"
)


def configured(account: Account, name: str, files: dict[str, bytes]) -> None:
    url = account.put(f"models/{name}/model.tar.gz", archive(files))
    configure_container(account, name, {"Image": IMAGE, "ModelDataUrl": url})


@pytest.fixture(scope="module")
def endpoints(account: Account) -> Iterator[Account]:
    """The account, with an endpoint for each script."""
    scripts = {"own-functions": CODE, "defaults": DEFAULTS, "in-parts": STREAMING}
    for name, script in scripts.items():
        configured(account, name, {"model.txt": b"3", "code/inference.py": script})
        in_service(account, name)
    yield account
    for name in scripts:
        remove(account, name)


def ask(account: Account, endpoint: str, sends: str, accept: str, body: bytes) -> bytes:
    answer = account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType=sends, Accept=accept, Body=body
    )
    return bytes(answer["Body"].read())


@pytest.mark.parametrize(
    ("endpoint", "sends", "accept", "body", "answer"),
    [
        ("own-functions", "application/json", "application/json", b'{"x": 2}', b'{"y": 6.0}'),
        ("own-functions", "application/json", "*/*", b'{"x": 2}', b'{"y": 6.0}'),
        ("defaults", "application/json", "application/json", b"[1, 2]", b"[3.0, 6.0]"),
        ("defaults", "text/csv", "application/json", b"1,2", b"[3.0, 6.0]"),
        ("defaults", "application/x-npy", "text/csv", npy([1, 2]), b"3\n6\n"),
        ("in-parts", "application/json", "text/plain", b'{"parts": ["one", "two"]}', b"onetwo"),
    ],
)
def test_the_scripts_functions_answer(
    endpoints: Account, endpoint: str, sends: str, accept: str, body: bytes, answer: bytes
) -> None:
    assert ask(endpoints, endpoint, sends, accept, body) == answer


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("own-functions", "application/json", "*/*", b'{"x": "boom"}'), "could not convert"),
        (("own-functions", "text/csv", "*/*", b"1"), "unsupported content type text/csv"),
        (("defaults", "image/png", "application/json", b"x"), "image/png"),
        (("defaults", "application/json", "image/png", b"[1]"), "image/png"),
    ],
)
def test_what_a_function_raises_is_the_models_error(
    endpoints: Account, request_: tuple[str, str, str, bytes], message: str
) -> None:
    with pytest.raises(ClientError, match=message) as caught:
        ask(endpoints, *request_)
    response: Any = caught.value.response
    assert response["OriginalStatusCode"] == 500


def test_a_part_of_an_answer_arrives_before_the_next_is_made(endpoints: Account) -> None:
    body = json.dumps({"parts": ["one", "two"], "wait_for": "signals/serving"}).encode()
    events = iter(
        endpoints.client("sagemaker-runtime").invoke_endpoint_with_response_stream(
            EndpointName="in-parts", ContentType="application/json", Body=body
        )["Body"]
    )
    first = next(events)["PayloadPart"]["Bytes"]
    endpoints.put("signals/serving", b"")
    assert [first, *(each["PayloadPart"]["Bytes"] for each in events)] == [b"one", b"two"]


def test_a_model_that_does_not_load_ends_the_container(account: Account) -> None:
    configured(account, "broken", {"code/inference.py": b"def model_fn(model_dir):\n  1 / 0\n"})
    failed = create(account, "broken")
    assert failed["EndpointStatus"] == "Failed"
    assert "The container ended with exit code 3." in failed["FailureReason"]
    assert "ZeroDivisionError" in "\n".join(
        account.log("/aws/sagemaker/Endpoints/broken", "AllTraffic")
    )


def test_an_emulator_without_the_recipe_says_what_to_do(
    account: Account, second_service: Services
) -> None:
    service = second_service(Settings())
    endpoint = deployed(service, account, "no-recipe", {"Image": IMAGE}, "Failed")
    assert "start the emulator with --recipes" in endpoint["FailureReason"]


PROGRAM = ROOT / "images" / "pytorch-serving" / "serve.py"
# a body "wait" is answered once the test has taken the file `closed` away
SCRIPT = """
import pathlib, time

def model_fn(model_dir):
    return pathlib.Path(model_dir) / "closed"

def input_fn(body, content_type):
    return body if isinstance(body, bytes) else body.encode()

def predict_fn(body, closed):
    while body == b"wait" and closed.exists():
        time.sleep(0.01)
    return body

def output_fn(prediction, accept):
    return prediction
"""
MAX_REQUESTS = 100
REQUEST = (
    b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 4\r\nConnection: close\r\n\r\nwait"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("container") / "model"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "inference.py").write_text(SCRIPT)
    return folder


@pytest.fixture
def closed(folder: Path) -> Iterator[Path]:
    """A file: while it is there, requests that wait are not answered."""
    file = folder / "closed"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    """The port of a server that has loaded the model, started as SageMaker starts a container."""
    runtime = Runtime(runtimes()["pytorch"].python())
    variables = {
        "SAGEMAKER_BASE_DIR": str(folder.parent),
        "SAGEMAKER_BIND_TO_PORT": "0",
        "SERVING_HOST": "127.0.0.1",
    }
    server = runtime.launch(runtime.alone(PROGRAM, "serve"), folder.parent, variables)
    assert server.stdout is not None
    found = None
    try:
        for line in server.stdout:
            sys.stdout.write(line)
            found = re.search(r"Listening at: http://127\.0\.0\.1:(\d+)", line) or found
            if "model loaded" in line:
                break
        assert found, "the server has ended"
        yield int(found[1])
    finally:
        server.terminate()
        server.communicate()
    assert server.returncode == 0


def answered(
    port: int, method: str, path: str, body: bytes | list[bytes] = b""
) -> tuple[int, bytes]:
    """Status and body of an answer; where nobody is left to give one, it never comes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "text/plain"}
    if isinstance(body, list):
        headers["Transfer-Encoding"] = "chunked"
        connection.request(method, path, iter(body), headers, encode_chunked=True)
    else:
        connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def waiting(port: int, number: int, stack: ExitStack) -> list[socket.socket]:
    """Connections by which so many requests were sent that wait."""
    sent = []
    for _ in range(number):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        connection.sendall(REQUEST)
        sent.append(connection)
    return sent


@pytest.mark.parametrize("number", [1, 8, MAX_REQUESTS])
def test_a_ping_is_answered_while_requests_wait(port: int, closed: Path, number: int) -> None:
    with ExitStack() as stack:
        sent = waiting(port, number, stack)
        assert answered(port, "GET", "/ping") == (200, b"")
        closed.unlink()
        assert all(each.recv(64).startswith(b"HTTP/1.1 200") for each in sent)


def test_a_request_more_than_can_wait_is_refused(port: int, closed: Path) -> None:
    with ExitStack() as stack:
        sent = waiting(port, MAX_REQUESTS + 1, stack)
        (refused, *others), _, _ = select.select(sent, [], [], 60)
        assert not others
        assert refused.recv(64).startswith(b"HTTP/1.1 503")
        assert answered(port, "GET", "/ping") == (200, b"")
        closed.unlink()
        left = [each for each in sent if each is not refused]
        assert all(each.recv(64).startswith(b"HTTP/1.1 200") for each in left)


@pytest.mark.parametrize("body", [b"whole", [b"in ", b"chunks"], b"", []])
def test_a_body_is_read_to_its_end(port: int, body: bytes | list[bytes]) -> None:
    whole = body if isinstance(body, bytes) else b"".join(body)
    assert answered(port, "POST", "/invocations", body) == (200, whole)
