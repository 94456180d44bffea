"""One emulator with the deployment in it, its faults, its layers of teardown, and what the machine
shows of it.

Time runs `SPEED` times as fast for what waits on schedules: the sweeper's rate and the time to
live; retries and function timeouts are shortened through the same APIs by which a person would
change them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from shoal_local.processes import started_at
from tests.chaos.deployment import Deployment
from tests.repository import ROOT

SPEED = 150.0
TTL_S = 600.0 / SPEED
"""`endpoint.ttl_minutes` of the deployment, on the fast clock."""
SWEEP_EVERY_S = 900.0 / SPEED
DURATIONS = {"stop_grace_s": 2.0, "lambda_step_s": 120.0}
FUNCTION_TIMEOUT_S = 30
VISIBILITY_S = 30
_STOP_LIMIT_S = 60.0


class World:
    """Start, deploy, disturb, stop. Everything it starts ends with `stop` or `kill`."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.deployment, self.folder = deployment, folder
        self.names = deployment.names
        self.state = folder / "state"
        self.scratch = folder / "tmp"
        self._faults = folder / "faults.jsonl"
        self._clients: dict[str, Any] = {}
        self._lock = threading.RLock()

    def start(self) -> None:
        """An emulator that answers, with the same state directory as the one before it."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._faults.write_text("")
        self._clients.clear()
        durations = [
            part
            for name, seconds in DURATIONS.items()
            for part in ("--duration", f"{name}={seconds}")
        ]
        options = [
            "--account",
            self.names.environment.account,
            "--schedule-speed",
            str(SPEED),
            "--enforce-iam",
        ]
        command = [
            sys.executable,
            "-m",
            "shoal_local",
            "serve",
            "--state-dir",
            str(self.state),
            "--faults",
            str(self._faults),
        ]
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("AWS_")
        } | {"TMPDIR": str(self.scratch)}
        with (self.folder / "emulator.err").open("a") as errors:
            self._process = subprocess.Popen(
                [*command, *options, *durations],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"no emulator: {(self.folder / 'emulator.err').read_text()}"
        self.endpoint = str(json.loads(line)["endpoint"])

    def deploy(self) -> None:
        """The real stacks; then the shorter times."""
        self.deployment.put(self.client)
        self.definition = json.loads(
            self.client("sagemaker").describe_pipeline(PipelineName=self.names.pipeline)[
                "PipelineDefinition"
            ]
        )
        functions = self.client("lambda")
        for purpose, shorter in (
            ("sweep", {"TTL_MINUTES": str(TTL_S / 60)}),
            ("teardown", {"RETRY_AFTER_S": "1"}),
            ("smoke-test", {}),
        ):
            name = self.names.function(purpose)
            variables = (
                functions.get_function_configuration(FunctionName=name)
                .get("Environment", {})
                .get("Variables", {})
                | shorter
            )
            functions.update_function_configuration(
                FunctionName=name, Timeout=FUNCTION_TIMEOUT_S, Environment={"Variables": variables}
            )
        sqs, url = self.client("sqs"), self.queue_url()
        policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"][
            "Policy"
        ]
        # moto forgets the policy of a queue whose attributes are set without it, and then no event
        # reaches the queue
        sqs.set_queue_attributes(
            QueueUrl=url, Attributes={"VisibilityTimeout": str(VISIBILITY_S), "Policy": policy}
        )

    def client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                self._clients[service] = boto3.client(  # type: ignore[call-overload]
                    service,
                    region_name="us-east-1",
                    endpoint_url=self.endpoint,
                    aws_access_key_id="test",
                    aws_secret_access_key="test",
                    config=Config(max_pool_connections=50, retries={"total_max_attempts": 1}),
                )
            return self._clients[service]

    def queue_url(self) -> str:
        """Of the queue between the terminal-status rule and the deleter."""
        (mapping,) = self.client("lambda").list_event_source_mappings(
            FunctionName=self.names.function("teardown")
        )["EventSourceMappings"]
        name = mapping["EventSourceArn"].rpartition(":")[2]
        return str(self.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])

    def dead_letters(self) -> int:
        """Messages that the deleter has given up on."""
        sqs = self.client("sqs")
        policy = json.loads(
            sqs.get_queue_attributes(QueueUrl=self.queue_url(), AttributeNames=["All"])[
                "Attributes"
            ]["RedrivePolicy"]
        )
        url = sqs.get_queue_url(QueueName=policy["deadLetterTargetArn"].rpartition(":")[2])[
            "QueueUrl"
        ]
        found = sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(found["Attributes"]["ApproximateNumberOfMessages"])

    def layers(self, *, rule: bool, sweeper: bool) -> None:
        """Switch the terminal-status rule and the sweeper's schedule on or off, as a person
        would.
        """
        events = self.client("events")
        for each in events.list_rules()["Rules"]:
            targets = [
                target["Arn"]
                for target in events.list_targets_by_rule(Rule=each["Name"])["Targets"]
            ]
            if any(arn.endswith(self.names.function("sweep")) for arn in targets):
                (events.enable_rule if sweeper else events.disable_rule)(Name=each["Name"])
            elif "Model Building Pipeline" in each.get("EventPattern", "") and any(
                ":sqs:" in arn for arn in targets
            ):
                (events.enable_rule if rule else events.disable_rule)(Name=each["Name"])

    def fault(self, **rule: Any) -> None:
        """Add a rule to the emulator's file."""
        with self._lock, self._faults.open("a") as stream:
            stream.write(json.dumps(rule) + "\n")

    def happened(self, execution: str) -> list[dict[str, Any]]:
        """The faults that befell the execution with this display name."""
        path = self.state / "faults.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["execution"] == execution]

    @contextlib.contextmanager
    def redefined(self, definition: dict[str, Any]) -> Iterator[None]:
        """For a moment in which nobody else starts, the pipeline has another definition; an
        execution keeps that of its start.
        """
        with self._lock:
            self.client("sagemaker").update_pipeline(
                PipelineName=self.names.pipeline, PipelineDefinition=json.dumps(definition)
            )
            yield

    def processes(self, mark: str) -> list[str]:
        """Processes on this machine that have `mark` in their command line or environment, without
        the emulator itself and us.
        """
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            pid = int(folder.name)
            if pid in {os.getpid(), self._process.pid} or started_at(pid) is None:
                continue
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if mark.encode() in command or mark.encode() in (folder / "environ").read_bytes():
                    found.append(
                        f"process {pid}"
                        f" {command[:120].replace(bytes(1), b' ').decode(errors='replace')}"
                    )
        return found

    def stop(self) -> list[str]:
        """SIGTERM, as `shoal local down` does; what is left on the machine afterwards."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return ["the emulator did not stop", *self.left()]
        return self.left()

    def kill(self) -> None:
        """SIGKILL; nothing is said to anybody."""
        self._process.kill()
        self._process.wait()

    def clean_up(self) -> None:
        """`python -m shoal_local down`: what a person runs after a crash."""
        subprocess.run(
            [sys.executable, "-m", "shoal_local", "down", "--state-dir", str(self.state)],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )

    def left(self) -> list[str]:
        """Processes, the port, locks and temporary files of this world, once they have had a moment
        to end.
        """
        looks: list[Callable[[], list[str]]] = [
            lambda: self.processes(str(self.state)),
            lambda: port_answers(self.endpoint),
            lambda: [f"temporary file {path}" for path in self.scratch.iterdir()],
            lambda: (
                [f"lock {path}" for path in self.state.rglob("*.lock")]
                if self.state.exists()
                else []
            ),
        ]
        deadline = time.monotonic() + 10
        while (
            found := [each for look in looks for each in look()]
        ) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def left_of(self, endpoint: str) -> list[str]:
        """What is left of a killed emulator that was at `endpoint`, now that another one has its
        state directory.
        """
        temporary = [f"temporary file {path}" for path in self.scratch.iterdir()]
        return [*self.processes(str(self.state)), *port_answers(endpoint), *temporary]


def port_answers(endpoint: str) -> list[str]:
    """The endpoint's port, if somebody listens there."""
    port = urlsplit(endpoint).port or 0
    with socket.socket() as probe:
        probe.settimeout(2)
        return [f"port {port}"] if probe.connect_ex(("127.0.0.1", port)) == 0 else []
