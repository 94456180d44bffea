"""One `mlflow server` in a container of its own, ready when it answers /health."""

from __future__ import annotations

import http.client
import os
import socket
import sys
import threading
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from shoal_local.context import RoleCredentials
from shoal_local.sagemaker.container.launch import Host, Pod
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.connections import Connections
from shoal_local.sagemaker.jobs import containers
from shoal_local.sagemaker.jobs.paths import JobPaths
from shoal_local.sagemaker.shapes import Document

_HOST = "tracking-server"
_PORT = 8080
_DATABASE = "mlflow.db"
"""In the folder that the container sees as /opt/ml."""
_LOOK_EVERY_S = 0.1
_ANSWER_S = 60.0
_FORWARDED_HEADERS = ("content-type", "accept", "user-agent")
Answer = tuple[int, dict[str, str], bytes]


class ServerEndedError(Exception):
    """The process does not serve; `str()` says why."""


def installed_version() -> str | None:
    """Return MLflow's version; None without it. Its client alone, mlflow-skinny, is not enough."""
    try:
        return version("mlflow")
    except PackageNotFoundError:
        return None


class ServerProcess:
    """The process of one tracking server, whose database stays in its folder. `close()` ends it."""

    def __init__(self, core: Core, server: Document) -> None:
        self._core, self._server = core, server
        self._paths = JobPaths.of(core.context.state_dir, "tracking", server["_name"])
        self._pod: Pod | None = None
        self._starting, self._closing = threading.Lock(), threading.Event()
        self._connections = Connections(self._dial)

    def start(self, credentials: RoleCredentials) -> None:
        """Start the process with the role's credentials, and return when it answers.

        Raise ServerEndedError if it does not.
        """
        paths = self._paths.host(_HOST)
        paths.make([_HOST])
        options = {
            "--backend-store-uri": f"sqlite:////opt/ml/{_DATABASE}",
            "--default-artifact-root": self._server["ArtifactStoreUri"],
            "--host": "127.0.0.1",
            "--port": str(_PORT),
            "--workers": "1",
        }
        command = [sys.executable, "-m", "mlflow", "server", "--no-serve-artifacts"]
        command += [word for pair in options.items() for word in pair]
        with self._starting:
            if self._closing.is_set():
                raise ServerEndedError("it was stopped")
            self._pod = Pod(
                self._paths.folder,
                [Host(_HOST, paths.folder, command, self._environment(credentials))],
                self._core.registry,
                [Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix)],
                containers.endpoint_port(self._core.context),
                self._write_line,
            )
        self._wait()

    def _environment(self, credentials: RoleCredentials) -> dict[str, str]:
        context = self._core.context
        return {
            "PATH": f"{sys.prefix}/bin:{os.defpath}",
            "HOME": "/tmp",  # noqa: S108 (its own)
            "AWS_REGION": context.region,
            "AWS_DEFAULT_REGION": context.region,
            "AWS_ENDPOINT_URL": context.endpoint_url(),
            "AWS_ACCESS_KEY_ID": credentials.access_key_id,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
            "AWS_SESSION_TOKEN": credentials.session_token,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # evaluations by language models
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _write_line(self, _host: str, line: str) -> None:
        with self._paths.log.open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")

    def _wait(self) -> None:
        while not self._answers():
            if self._closing.is_set():
                raise ServerEndedError("it was stopped")
            if self._pod is None or self._pod.wait(0):
                raise ServerEndedError(f"it ended; its output is in {self._paths.log}")
            self._closing.wait(_LOOK_EVERY_S)

    def _answers(self) -> bool:
        try:
            return self.request("GET", "/health", b"", {})[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def request(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Return the server's answer; raise OSError or HTTPException if there is none."""
        kept = {name: headers[name] for name in _FORWARDED_HEADERS if name in headers}
        with self._connections.connection(_ANSWER_S) as connection:
            connection.request(method, target, body or None, kept)
            answer = connection.getresponse()
            content_type = answer.getheader("Content-Type", "application/json")
            return answer.status, {"Content-Type": content_type}, answer.read()

    def _dial(self) -> socket.socket:
        if self._pod is None:
            raise ConnectionError("the server has ended")
        return self._pod.dial(_PORT)

    def close(self) -> None:
        """End the process, whether it serves or is being started."""
        self._closing.set()
        self._connections.close()
        with self._starting:
            if self._pod is not None:
                self._pod.close()
