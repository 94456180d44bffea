"""Run a function's handler in a process of its own, as Lambda does, also against a small server."""

import json
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from shoal_local.testing import root_variables
from tests.functions.bootstrap import run


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[[Request], tuple[int, bytes]]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Serve until the block ends; yields the server's URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, content = answer(Request(self.command, self.path, dict(self.headers), body))
            except ConnectionResetError:  # the client gets no answer
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - http.server calls these names

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
            """Nothing: pytest shows what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


FUNCTIONS = (
    Path(__file__).resolve().parents[4] / "packages" / "shoal" / "src" / "shoal" / "functions"
)

DEADLINE_S = 60.0
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.functions.bootstrap"])


@dataclass(frozen=True)
class Outcome:
    """`error` is `Type: message` of what the handler raised, or empty."""

    result: Any
    error: str
    log: str


def invoke(
    folder: str | Path,
    event: Mapping[str, Any],
    *,
    endpoint_url: str,
    remaining_ms: int = 60_000,
    environment: Mapping[str, str] | None = None,
    module: str = "handler",
) -> Outcome:
    """Call the handler of `packages/shoal/src/shoal/functions/<folder>/<module>.py` as Lambda
    would; a `folder` that is a whole path stands for itself.
    """
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary)
        variables = {
            "PATH": os.environ["PATH"],
            "AWS_ENDPOINT_URL": endpoint_url,
            "AWS_ACCESS_KEY_ID": "111122223333",
            "AWS_SECRET_ACCESS_KEY": "for-this-test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            **root_variables(endpoint_url),
            **(environment or {}),
        }
        # Lambda hands over JSON, so what is no JSON fails here as well.
        message = json.loads(json.dumps(event))
        process = _FORKS.Process(
            target=run, args=(FUNCTIONS / folder, module, message, remaining_ms, variables, output)
        )
        process.start()
        process.join(DEADLINE_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        log = (output / "log").read_text()
        assert process.exitcode == 0, log
        outcome = json.loads((output / "outcome.json").read_text())
    return Outcome(outcome.get("result"), outcome.get("error", ""), log)


def session_of(sts: Any, role_arn: str) -> dict[str, str]:
    """Return the variables by which a function acts as the role."""
    session = sts.assume_role(RoleArn=role_arn, RoleSessionName="function")["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["SessionToken"],
    }


def answer_of(folder: str | Path, event: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return what CloudFormation got at the response URL; `options` are those of `invoke`."""
    answers: list[Request] = []

    def take(request: Request) -> tuple[int, bytes]:
        answers.append(request)
        return 200, b""

    with serving(take) as response_url:
        request = {"ResponseURL": f"{response_url}/?signature=x%2By", "RequestId": "request-1"}
        invoke(folder, event | request, **options)
    (answer,) = answers
    assert (answer.method, answer.path) == ("PUT", "/?signature=x%2By")
    return dict(json.loads(answer.body))
