"""One emulator with the deployment in it, its faults, its layers of teardown, and what the machine
shows of it.

Time runs `SPEED` times as fast for what waits on schedules: the sweeper's rate and the time to
live; retries and function timeouts are shortened through the same APIs by which a person would
change them.
"""

import copy
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.config import Config

from shoal.aws.target import Target
from shoal.settings.names import Names
from shoal.verbs.workspace import Session, Workspace
from shoal_local.testing import LocalEmulator, clean_up, listener, processes_with
from tests.chaos.cases import CAPACITY
from tests.chaos.deployment import Deployment
from tests.chaos.source.misbehaviour import FAULTS
from tests.repository import ROOT

SPEED = 150.0
TTL_S = 600.0 / SPEED
"""`endpoint.ttl_minutes` of the deployment, on the fast clock."""
SWEEP_EVERY_S = 900.0 / SPEED
DURATIONS = {"stop_grace_s": 2.0, "lambda_step_s": 120.0}
FUNCTION_TIMEOUT_S = 30
VISIBILITY_S = 30
SHORTER: dict[str, dict[str, str]] = {
    "sweep": {"TTL_MINUTES": str(TTL_S / 60)},
    "teardown": {"RETRY_AFTER_S": "1"},
    "seal": {},
    "smoke-test": {},
}
"""Function to the variables that make it faster."""


class World:
    """Start, deploy, disturb, stop. Everything it starts ends with `stop` or `kill`."""

    definition: dict[str, Any]
    each: "tuple[World, ...]"
    """The world as each workload sees it. It is itself as the first one does."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        self.deployment, self.folder = deployment, folder
        self.names = deployment.names
        self.state = folder / "state"
        self.scratch = folder / "tmp"
        self._faults = folder / "faults.jsonl"
        self._capacity = folder / "capacity.json"
        self._clients: dict[str, Any] = {}
        self._lock = threading.RLock()

    @classmethod
    @contextmanager
    def running(cls, deployment: Deployment, folder: Path, left: list[str]) -> "Iterator[World]":
        """Yield a world that has been started; `left` gets what it leaves on the machine."""
        world = cls(deployment, folder)
        try:
            world.start()
            yield world
        finally:
            left += world.stop()

    def start(self) -> None:
        """An emulator that answers, with the same state directory as the one before it."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._faults.write_text("")
        self._capacity.write_text(json.dumps(CAPACITY))
        self._clients.clear()
        options = ["--account", self.names.environment.account, "--enforce-iam"]
        options += ["--schedule-speed", str(SPEED), "--faults", str(self._faults)]
        options += ["--capacity", str(self._capacity)]
        for name, seconds in DURATIONS.items():
            options += ["--duration", f"{name}={seconds}"]
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("AWS_")
        } | {"TMPDIR": str(self.scratch)}
        with (self.folder / "emulator.err").open("a") as errors:
            self._emulator = LocalEmulator.start(
                self.state, *options, environment=environment, errors=errors
            )

    @property
    def endpoint(self) -> str:
        return self._emulator.account.endpoint

    def deploy(self) -> None:
        """The real stacks; then the shorter times."""
        self.deployment.put(self.client)
        self.each = tuple(map(self._of, self.deployment.each))
        self.definition = self.each[0].definition

    def _of(self, names: Names) -> "World":
        """The world as one workload sees it, with shorter times; all share the emulator."""
        world = copy.copy(self)
        world.names = names
        world._hurry()
        return world

    def _hurry(self) -> None:
        pipeline = self.client("sagemaker").describe_pipeline(PipelineName=self.names.pipeline)
        self.definition = json.loads(pipeline["PipelineDefinition"])
        functions = self.client("lambda")
        for purpose, shorter in SHORTER.items():
            name = self.names.function(purpose)
            answer = functions.get_function_configuration(FunctionName=name)
            variables = answer.get("Environment", {}).get("Variables", {}) | shorter
            functions.update_function_configuration(
                FunctionName=name, Timeout=FUNCTION_TIMEOUT_S, Environment={"Variables": variables}
            )
        policy = self._attribute(self.queue_url(), "Policy")
        # moto forgets the policy of a queue whose attributes are set without it, and then no event
        # reaches the queue
        attributes = {"VisibilityTimeout": str(VISIBILITY_S), "Policy": policy}
        self.client("sqs").set_queue_attributes(QueueUrl=self.queue_url(), Attributes=attributes)

    def _attribute(self, queue_url: str, name: str) -> str:
        attributes = self.client("sqs").get_queue_attributes(
            QueueUrl=queue_url, AttributeNames=["All"]
        )
        return str(attributes["Attributes"][name])

    def client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                config = Config(max_pool_connections=50, retries={"total_max_attempts": 1})
                self._clients[service] = self._emulator.account.client(service, config)
            return self._clients[service]

    @property
    def session(self) -> Session:
        """The workload as the verbs see it."""
        environment, account = self.names.environment, self._emulator.account
        target = Target(
            environment.account, environment.region, account.endpoint, secret=account.secret
        )
        return Session(Workspace(ROOT, {}), environment, target)

    def queue_url(self) -> str:
        """Of the queue between the terminal-status rule and the deleter."""
        (mapping,) = self.client("lambda").list_event_source_mappings(
            FunctionName=self.names.function("teardown")
        )["EventSourceMappings"]
        name = mapping["EventSourceArn"].rpartition(":")[2]
        return str(self.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])

    def dead_letters(self) -> int:
        """Messages that the deleter has given up on."""
        policy = json.loads(self._attribute(self.queue_url(), "RedrivePolicy"))
        name = policy["deadLetterTargetArn"].rpartition(":")[2]
        url = self.client("sqs").get_queue_url(QueueName=name)["QueueUrl"]
        return int(self._attribute(url, "ApproximateNumberOfMessages"))

    def layers(self, *, rule: bool, sweeper: bool) -> None:
        """Switch the terminal-status rule and the sweeper's schedule on or off, as a person
        would.
        """
        events = self.client("events")
        queue = self.queue_url().rpartition("/")[2]
        for each in events.list_rules()["Rules"]:
            targets = events.list_targets_by_rule(Rule=each["Name"])["Targets"]
            is_terminal = "Model Building Pipeline" in each.get("EventPattern", "")
            for arn in [target["Arn"] for target in targets]:
                if arn.endswith(self.names.function("sweep")):
                    (events.enable_rule if sweeper else events.disable_rule)(Name=each["Name"])
                elif is_terminal and arn.endswith(f":{queue}"):
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

    def begin(self, definition: dict[str, Any], label: str = "chaos", script: str = "none") -> str:
        """Start an execution of another definition, and return its ARN. The pipeline has that
        definition for a moment in which nobody else starts; an execution keeps that of its start.
        """
        sagemaker, name = self.client("sagemaker"), self.names.pipeline
        with self._lock:
            sagemaker.update_pipeline(PipelineName=name, PipelineDefinition=json.dumps(definition))
            started = sagemaker.start_pipeline_execution(
                PipelineName=name,
                PipelineExecutionDisplayName=label,
                PipelineParameters=[{"Name": "Fault", "Value": str(FAULTS.index(script))}],
            )
        return str(started["PipelineExecutionArn"])

    def status(self, execution: str) -> str:
        """Return the status of the execution with this ARN."""
        request = {"PipelineExecutionArn": execution}
        answer = self.client("sagemaker").describe_pipeline_execution(**request)
        return str(answer["PipelineExecutionStatus"])

    def steps(self, execution: str) -> dict[str, tuple[str, str]]:
        """Return status and failure reason of each step of the execution with this ARN."""
        request = {"PipelineExecutionArn": execution}
        answer = self.client("sagemaker").list_pipeline_execution_steps(**request)
        return {
            each["StepName"]: (each["StepStatus"], each.get("FailureReason", ""))
            for each in answer["PipelineExecutionSteps"]
        }

    def requests(self) -> list[dict[str, Any]]:
        """Every request so far, with who sent it and what IAM was asked about it."""
        lines = (self.state / "requests.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def processes(self, mark: str) -> list[str]:
        """Processes on this machine that have `mark` in their command line or environment, without
        the emulator itself and us.
        """
        return processes_with(mark, without={self._emulator.process.pid})

    def stop(self) -> list[str]:
        """SIGTERM, as `shoal local down` does; what is left on the machine afterwards."""
        return [*self._emulator.stop(), *self._temporary()]

    def kill(self) -> None:
        """SIGKILL; nothing is said to anybody."""
        self._emulator.kill()

    def clean_up(self) -> None:
        """`python -m shoal_local down`: what a person runs after a crash."""
        clean_up(self.state)

    def left(self) -> list[str]:
        """Processes, the port, locks and temporary files of this world, once they have had a moment
        to end.
        """
        return [*self._emulator.leftovers(), *self._temporary()]

    def left_of(self, endpoint: str) -> list[str]:
        """What is left of a killed emulator that was at `endpoint`, now that another one has its
        state directory.
        """
        return [*self.processes(str(self.state)), *listener(endpoint), *self._temporary()]

    def _temporary(self) -> list[str]:
        return [f"temporary file {path}" for path in self.scratch.iterdir()]
