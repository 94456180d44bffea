"""The lines of docs/first-aws-run.md that a program can type and judge, cheapest first; and the
record of every request and its answer, one JSON object a line, without anything that is
somebody's: ids, keys, people.

What a line expects is read from the account's answers. packages/shoal-
local/tests/control/test_aws_answers.py replays the record.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shoal.aws.events import Report
from shoal.aws.execution import Execution, Step
from shoal.aws.logs import lines_of
from shoal.aws.objects import has_files
from shoal.aws.stacks import status_of_stack
from shoal.aws.target import Target
from shoal.errors import ShoalError
from shoal.pipelines.checks.check import check
from shoal.settings.names import ENVIRONMENT_TAG, RUNS
from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.sections.secrets import ANYWHERE
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


_KEY = "shoal.prove"


class Recorder:
    """Appends a line when an answer is there: which line of the proof asked, service, operation,
    parameters, HTTP status, error code, answer and seconds.
    """

    def __init__(self, path: Path, redaction: "Redaction") -> None:
        self._path, self._redaction, self._lock = path, redaction, threading.Lock()
        self.line = "account"
        """The line of the proof that goes on."""
        path.write_bytes(b"")

    def listen(self, target: Target) -> None:
        """Record what the clients send that `target` makes from now on; the events are
        botocore's, and transfers send from several threads.
        """
        target.listen("provide-client-params", self._on_request)
        target.listen("after-call", self._on_answer)

    def _on_request(self, params: Any, model: Any, context: dict[str, Any], **_: Any) -> None:
        service, params = model.service_model.service_name, self._redaction.value(params)
        request = {"service": service, "operation": model.name, "params": params}
        context[_KEY] = time.monotonic(), {"line": self.line, **request}

    def _on_answer(
        self, http_response: Any, parsed: Any, context: dict[str, Any], **_: Any
    ) -> None:
        sent_at, request = context[_KEY]
        outcome = {
            "status": http_response.status_code,
            "error": parsed.get("Error", {}).get("Code"),
            "answer": self._redaction.value(parsed),
            "elapsed_s": round(time.monotonic() - sent_at, 3),
        }
        line = json.dumps(request | outcome, ensure_ascii=False).encode() + b"\n"
        with suppress(OSError), self._lock, self._path.open("ab", buffering=0) as file:
            file.write(line)  # a full disk must not keep the clean-up from its answers


ACCOUNT, ENVIRONMENT = "111122223333", "prove-0000"
"""What stands for every account and proof; documentation's account is shoal-local's, too."""
MAX_ITEMS = 10
"""Of a list in an answer; the rest says nothing about its form."""
_GONE = "REDACTED"
_DROPPED = frozenset({"ResponseMetadata", "Owner", "UserId"})
_SECRET = re.compile(r"secret|token|signature|password|credential|authorization|accesskey", re.I)
_TEXTS = [(re.compile(pattern), new) for pattern, new in _TABLE["redaction"]]
_TOKEN = re.compile(rf"(?:{ANYWHERE.pattern})[\w./-]*")
_NAMES, _VALUES = ("Name", "Key", "name", "ParameterKey"), ("Value", "value", "ParameterValue")
"""How answers call the name and the value of a tag, a parameter or a variable."""


@dataclass(frozen=True)
class Redaction:
    """What is known to be somebody's, besides what its form shows."""

    account: str
    environment: str
    checkout: Path = Path("/")
    """Where paths of this machine begin; its parents are somebody's, too."""

    def text(self, text: str) -> str:
        for folder, name in ((self.checkout, "CHECKOUT"), (Path.home(), "HOME")):
            if folder != Path("/"):
                text = text.replace(str(folder), name)
        text = text.replace(self.account, ACCOUNT).replace(self.environment, ENVIRONMENT)
        for pattern, replacement in _TEXTS:
            text = pattern.sub(replacement, text)
        return _TOKEN.sub(_GONE, text)

    def value(self, value: Any) -> Any:
        """Return a request or an answer in JSON's types, its lists cut after MAX_ITEMS."""
        if isinstance(value, Mapping):
            kept = {key: each for key, each in value.items() if key not in _DROPPED}
            named = next((str(value[name]) for name in _NAMES if name in value), "")
            redacted = {}
            for key, each in kept.items():
                is_secret = _SECRET.search(named if key in _VALUES else str(key))
                is_text = isinstance(each, str | bytes)
                redacted[self.text(str(key))] = _GONE if is_secret and is_text else self.value(each)
            return redacted
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value[:MAX_ITEMS]]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, datetime):
            return value.isoformat()
        is_plain = value is None or isinstance(value, int | float)
        return value if is_plain else f"<{type(value).__name__}>"
