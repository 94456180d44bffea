"""The program of the recipe pytorch-serving under more requests than it computes at once."""

from __future__ import annotations

import http.client
import re
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from local_kit.runtime import ROOT, Runtime
from shoal_local.runtimes.catalog import runtimes

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
