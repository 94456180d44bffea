"""The lines of docs/first-aws-run.md that a program can type and judge, cheapest first.

What a line expects is read from the account's answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shoal.aws.events import Report
from shoal.aws.execution import Execution, Step
from shoal.aws.logs import lines_of
from shoal.aws.objects import has_files
from shoal.aws.stacks import status_of_stack
from shoal.errors import ShoalError
from shoal.pipelines.checks.check import check
from shoal.settings.names import ENVIRONMENT_TAG, RUNS
from shoal.settings.parsing.yaml_file import read_table
from shoal.verbs import dataset
from shoal.verbs.doctor import State
from shoal.verbs.doctor.doctor import Doctor
from shoal.verbs.follow import Follower
from shoal.verbs.workspace import Session

_PIPELINES = "AWS/Sagemaker/ModelBuildingPipeline"


@dataclass
class Ground:
    """Where lines are proven, and the execution once there is one."""

    session: Session
    report: Report
    logs: Path
    execution: Execution | None = None

    def step(self, name: str) -> Step:
        step = self.execution and self.execution.step(name)
        if not step or step.status != "Succeeded":
            raise ShoalError(f"not as expected: step {name} did not succeed")
        return step

    def wait(self, look: Callable[[], object]) -> None:
        """Return when `look` returns something true; the line's limit ends it."""
        while not look():
            time.sleep(self.session.poll_s)


def _expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise ShoalError(f"not as expected: {otherwise}")


def _doctor(ground: Ground) -> str:
    session = ground.session
    environment, root = session.environment, session.workspace.root
    launch = check(environment, root=root).launch
    findings = [*Doctor(session.target, environment, launch).findings()]
    failed = [each for each in findings if each.state is State.FAILED]
    _expect(not failed, "\n".join(f"{e.question}: {e.message}; {e.advice}" for e in failed))
    unknown = [each.question for each in findings if each.state is State.UNKNOWN]
    return f"{len(findings)} answers, none failed; unknown: {', '.join(unknown) or 'none'}"


def _deploy(ground: Ground) -> str:
    session = ground.session
    tag = f"{ENVIRONMENT_TAG}={session.names.prefix}"  # so that a later proof knows whose it is
    cdk, stacks = session.prepared(ground.report, f"--tags={tag}"), session.stacks(ground.report)
    cdk.deploy(session.target, session.environment.name)
    statuses = {each: status_of_stack(session.target, each) for each in stacks.left()}
    _expect({*statuses.values()} == {"CREATE_COMPLETE"}, f"stacks {statuses}")
    return f"{len(statuses)} stacks, CREATE_COMPLETE"


def _upload(ground: Ground) -> str:
    session = ground.session
    root = session.workspace.root
    count = dataset.upload_workload(session.target, session.environment, root, ground.report)
    notice = dataset.require_uploaded(session, {})
    _expect(not notice, notice)
    return f"{count} files uploaded; every channel has some"


def _run(ground: Ground) -> str:
    session = ground.session
    pipeline, metrics = session.pipeline, session.environment.training.metrics
    arn = pipeline.start({})
    follower = Follower(pipeline, arn, ground.report, session.poll_s, ground.logs, metrics=metrics)
    ground.execution = follower.follow()
    follower.raise_unless_succeeded(ground.execution)
    return f"execution {ground.execution.id} Succeeded"


def _status(ground: Ground) -> str:
    """The page of a run is kept by a function that the event of the execution's end starts."""
    names, target = ground.session.names, ground.session.target
    steps = [ground.step(name) for name, _ in ground.session.pipeline.planned_steps()]
    _expect(all(step.started_at and step.ended_at for step in steps), "steps without times")
    pages = f"s3://{names.bucket('artifacts')}/{names.folder(RUNS)}/"
    ground.wait(lambda: has_files(target, pages))
    return f"{len(steps)} steps Succeeded; the event of the end came, and a page is kept"


def _logs(ground: Ground) -> str:
    target = ground.session.target
    lines = list(lines_of(target, ground.step("Train")))
    _expect(any("epoch=" in each.text for each in lines), f"no epoch in {len(lines)} lines")
    streams = {each.stream for each in lines}
    _expect(all(each.startswith("pipelines-") for each in streams), f"streams {streams}")
    served = any(lines_of(target, ground.step("CreateEndpoint")))
    _expect(served, "the endpoint's log group has no line")
    return f"{len(lines)} lines of Train, in {', '.join(sorted(streams))}"


def _endpoints(ground: Ground) -> str:
    """Teardown has asked for the deletion; AWS takes a moment."""
    prefix, client = ground.session.names.prefix, ground.session.target.client("sagemaker")
    name = str(ground.step("CreateEndpointConfig").resource("EndpointConfig")).rpartition("/")[2]
    own = f"{prefix}-{ground.execution.id if ground.execution else ''}"
    _expect(name.startswith(own), f"the configuration was called {name}")
    ground.wait(lambda: not client.list_endpoints(NameContains=prefix)["Endpoints"])
    ground.wait(lambda: not client.list_endpoint_configs(NameContains=prefix)["EndpointConfigs"])
    return f"none is left; the configuration's suffix was {name.removeprefix(own) or 'empty'}"


def _metrics(ground: Ground) -> str:
    now, name = datetime.now(UTC), "ExecutionSucceeded"
    request = {
        "Namespace": _PIPELINES,
        "MetricName": name,
        "Dimensions": [{"Name": "PipelineName", "Value": ground.session.names.pipeline}],
        "StartTime": now - timedelta(hours=1),
        "EndTime": now + timedelta(hours=1),
        "Period": 60,
        "Statistics": ["Sum"],
    }
    read = ground.session.target.client("cloudwatch").get_metric_statistics
    ground.wait(lambda: read(**request)["Datapoints"])
    units = {each["Unit"] for each in read(**request)["Datapoints"]}
    _expect(units == {"Count"}, f"the unit of {name} is {units}")
    return f"{_PIPELINES} {name} has points, in Count"


_PROOFS = {
    "doctor": _doctor,
    "deploy": _deploy,
    "data": _upload,
    "run": _run,
    "status": _status,
    "logs": _logs,
    "endpoints": _endpoints,
    "metrics": _metrics,
}


@dataclass(frozen=True)
class Line:
    """One line: which rows of the checklist it types, for how long at most, and what it proves."""

    name: str
    rows: list[str]
    limit_s: int
    claims: list[str] = field(default_factory=list)

    def prove(self, ground: Ground) -> str:
        """Return what was seen; raise ShoalError where that is not as expected."""
        return _PROOFS[self.name](ground)


_TABLE = read_table(__file__, "lines.yaml")
*LINES, CLEAN_UP = (Line(name, **row) for name, row in _TABLE["lines"].items())
BY_HAND: dict[str, str] = _TABLE["by_hand"]
"""Rows of the checklist that are not typed, and why."""
