"""The shipped model server as a bare process at a port of loopback."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dev.bench.machine import REPOSITORY
from dev.bench.processes import RunFailedError, plain_environment
from dev.bench.rounds import cores

PROGRAM = (
    REPOSITORY / "packages/shoal-local/src/shoal_local/sagemaker/container/inside/serve_model.py"
)
HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
START_S = 120.0
LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    port: int

    def ask(self, body: bytes) -> bytes:
        """Return one answer over a new connection; raise RunFailedError unless it is 200."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            return post(connection, "/invocations", body, HEADERS)
        finally:
            connection.close()

    def answers_ping(self) -> bool:
        """Return whether it is ready."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def post(
    connection: http.client.HTTPConnection, path: str, body: bytes, headers: dict[str, str]
) -> bytes:
    """Send one request on an open connection; raise RunFailedError unless the answer is 200."""
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    answer = response.read()
    if response.status != http.client.OK:
        raise RunFailedError(f"{path} answered {response.status}: {answer[:300]!r}")
    return answer


@contextmanager
def model_server(python: Path, folder: Path) -> Iterator[Server]:
    """Serve `folder`/model with the runtime's interpreter and the environment of a container; end
    it afterwards.
    """
    port = _free_port()
    environ = plain_environment(
        SAGEMAKER_BASE_DIR=str(folder),
        SAGEMAKER_BIND_TO_PORT=str(port),
        OMP_NUM_THREADS=str(len(cores())),
    )
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, "-P", PROGRAM],
            env=environ,
            cwd=folder,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        server = Server(port)
        deadline = time.monotonic() + START_S
        while not server.answers_ping():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RunFailedError(
                    f"the model server does not answer:\n{log.read_text()[-2000:]}"
                )
            time.sleep(LOOK_EVERY_S)
        yield server
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
