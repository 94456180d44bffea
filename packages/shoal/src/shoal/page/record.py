"""run.json: everything that is known of one execution, as one object.

Built from Describe and List operations, CloudWatch Logs and S3 alone, so AWS and shoal-local give
the same; partial while it runs. Its form is `run.schema.json`. What could not be read is null, and
`unread` says why.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from shoal.aws import registry
from shoal.aws.execution import NOT_STARTED, Execution, Step
from shoal.aws.jobs import earlier_attempts, job_name
from shoal.aws.logs import LogCopy, LogLine
from shoal.aws.metrics import MAX_LINE, progress_metrics
from shoal.errors import AWS_ERRORS, ShoalError, refusal
from shoal.page.place import Place
from shoal.page.readings.calls import calls_in
from shoal.page.readings.cause import Cause, cause_in, rank_of
from shoal.page.readings.cleanups import Cleanup, cleanups_of
from shoal.page.readings.curves import curves_of
from shoal.page.readings.gates import GATE, GateResult, gates_of
from shoal.page.readings.lineage import NOT_KNOWN, code_of, lineage_of
from shoal.page.readings.money import Use, money_of
from shoal.page.readings.report import answers_of, evaluation_of

VERSION = 1
MAX_LINES = 2000
"""Lines that are kept of each step's log: of a longer one the first and the last half."""
_REFERENCE = re.compile(r'"Steps\.([A-Za-z0-9_-]+)[."]')
_BRANCHES = ("IfSteps", "ElseSteps")
_JOBS = ("TrainingJob", "ProcessingJob", "TransformJob")
_RESOURCES = {
    "Model": "list_models",
    "EndpointConfig": "list_endpoint_configs",
    "Endpoint": "list_endpoints",
}
# Nothing in it can match in two ways: time is linear in the length of a line.
_PARTS = re.compile(
    r"milliseconds of a step\b[^:]*: (?P<parts>(?:\w+=\d{1,12}(?:\.\d{1,12})?(?: |$))+)$"
)
_CLOCK_SLACK = timedelta(minutes=5)
_OVER = ("Completed", "Failed", "Stopped", "MaxRuntimeExceeded")
"""Secondary statuses of a job that has ended, which is no phase of it."""
T = TypeVar("T")


def attempt(what: str, source: Callable[[], T], unread: list[str]) -> T | None:
    """Return what `source` answers; None, with a note why in `unread`, if that fails."""
    try:
        return source()
    except (ShoalError, ValueError, KeyError, TypeError, ArithmeticError, *AWS_ERRORS) as error:
        unread.append(f"{what}: {refusal(error)}")
        return None


def json_text(run: Mapping[str, Any], **form: Any) -> str:
    """Return a run as JSON in ASCII: an endpoint may have answered NaN, which becomes null, or half
    of a character. `form` is what json.dumps takes.
    """
    finite = json.loads(json.dumps(run), parse_constant=lambda _: None)
    return json.dumps(finite, allow_nan=False, **form)


@dataclass
class Look:
    """One look at an execution; `unread` gathers what could not be read."""

    place: Place
    execution: Execution
    definition: Mapping[str, Any]
    parameters: Mapping[str, str]
    now: datetime
    unread: list[str] = field(default_factory=list)

    def read(self, what: str, source: Callable[[], T]) -> T | None:
        """Return what `source` answers; None, with a note why, if that fails."""
        return attempt(what, source, self.unread)

    @property
    def client(self) -> Any:
        return self.place.target.client("sagemaker")


def record(
    place: Place,
    arn: str,
    *,
    with_logs: bool = True,
    logs: LogCopy | None = None,
) -> dict[str, Any]:
    """Return the run with this ARN as it is now; without logs it has no curves, cleanups and calls,
    either.

    Of `logs`, what an earlier look has read, only what is new is read.

    Raises ClientError if the execution itself cannot be read.
    """
    look = _look(place, arn)
    execution = look.execution
    jobs = {step.name: look.read(step.name, partial(_job, look, step)) for step in execution.steps}
    logs = logs or LogCopy()
    lines = {step.name: _lines(look, step, logs) for step in execution.steps if with_logs}
    gates = look.read("gates", partial(gates_of, place.target, execution)) or ()
    evaluation = look.read("evaluation", partial(_evaluation, look))
    answers = look.read("answers", partial(answers_of, execution)) or ()
    training = next((job for job in jobs.values() if job and job["kind"] == "TrainingJob"), None)
    package = look.read("model package", partial(_package, look))
    made = list(_made(look, jobs))
    cleanups = (look.read("cleanups", partial(_cleanups, look)) if with_logs else None) or []
    money = money_of(_uses(look, jobs, made, cleanups), place.price_of)
    commit = look.read("commit", partial(_commit, look, training))
    lineage = lineage_of(execution, training, evaluation, package, commit)
    return {
        "version": VERSION,
        "observed_at": _time(look.now),
        "run": _run(look),
        "verdict": _verdict(look, gates, lines, package),
        "parameters": dict(look.parameters),
        "steps": [
            _step(look, step, after, jobs.get(step.name)) for step, after in _all_steps(look)
        ],
        "cleanups": [{"by": each.by, "at": _time(each.at), "text": each.text} for each in cleanups],
        "curves": look.read("curves", partial(_curves, look, lines)) or [],
        "parts": look.read("parts of a step", lambda: list(parts_of(lines))) or [],
        "gates": [asdict(each) for each in gates],
        "metrics": evaluation,
        "answers": [asdict(each) for each in answers],
        "package": package
        and {
            "arn": package.arn,
            "version": package.version,
            "approval": package.approval,
            "archive": package.model_data_url,
        },
        "money": money.to_dict(),
        "lineage": [asdict(link) for link in lineage],
        "made": made,
        "calls": look.read("calls", partial(_calls, look)) if with_logs else None,
        "logs": {name: _kept(some) for name, some in lines.items() if some},
        "unread": look.unread,
    }


def _look(place: Place, arn: str) -> Look:
    client, request = place.target.client("sagemaker"), {"PipelineExecutionArn": arn}
    definition = client.describe_pipeline_definition_for_execution(**request)["PipelineDefinition"]
    pages = client.get_paginator("list_pipeline_parameters_for_execution").paginate(**request)
    values = {
        each["Name"]: str(each["Value"]) for page in pages for each in page["PipelineParameters"]
    }
    return Look(place, place.pipeline.look(arn), json.loads(definition), values, datetime.now(UTC))


def _run(look: Look) -> dict[str, Any]:
    execution, place = look.execution, look.place
    ended_at = _ended_at(execution)
    return {
        "id": execution.id,
        "arn": execution.arn,
        "pipeline": place.pipeline.name,
        "environment": place.environment,
        "workload": place.workload,
        "account": place.target.account,
        "region": place.target.region,
        "is_local": place.is_local,
        "status": execution.status,
        "started_at": _time(execution.started_at),
        "ended_at": _time(ended_at),
        "seconds": _seconds(execution.started_at, ended_at or look.now),
        "definition_sha256": hashlib.sha256(
            json.dumps(look.definition, sort_keys=True).encode()
        ).hexdigest(),
    }


def _ended_at(execution: Execution) -> datetime | None:
    ends = [step.ended_at for step in execution.steps if step.ended_at]
    return max(ends, default=execution.started_at) if execution.has_ended else None


def _verdict(
    look: Look,
    gates: Sequence[GateResult],
    lines: Mapping[str, Sequence[LogLine]],
    package: registry.Package | None,
) -> dict[str, Any]:
    execution, arguments = look.execution, look.place.arguments
    verdict: dict[str, Any] = {
        "outcome": execution.status,
        "step": None,
        "reason": None,
        "host": None,
    }
    verdict |= {"rank": None, "line": None, "next": None}
    if execution.status == "Succeeded":
        if package and package.approval != registry.APPROVED:
            return verdict | {"next": f"shoal approve {arguments} {package.version}"}
        return verdict | {"next": f"shoal runs {arguments}"}
    if not execution.has_ended:
        verb = "status" if execution.status == "Stopping" else "stop"
        return verdict | {"next": f"shoal {verb} {arguments} {execution.id}"}
    step = execution.failed_step
    verdict["reason"] = (step or execution).failure_reason or None
    if step is None:
        return verdict | {"next": f"shoal runs {arguments}"}
    has_log = any(step.resource(kind) for kind in (*_JOBS, "Lambda", "Endpoint"))
    more = f"logs {arguments} {execution.id} {step.name}" if has_log else f"runs {arguments}"
    verdict |= {"step": step.name, "next": f"shoal {more}"}
    missed = [str(each) for each in gates if each.passed is False]
    if missed and step.name in _steps_of_the_gate(look):
        verdict |= {"reason": "; ".join(missed)}
    reason = step.failure_reason if step.type == "Lambda" else ""  # runs share a function's log
    cause = cause_in(lines.get(step.name, ()), reason) or Cause("")
    return verdict | {"host": cause.host or None, "rank": cause.rank, "line": cause.line or None}


def _steps_of_the_gate(look: Look) -> set[str]:
    """Return the steps that run where a gate was missed."""
    gate = next(each for each in look.definition["Steps"] if each["Name"] == GATE)
    return {each["Name"] for each in gate["Arguments"].get("ElseSteps", ())}


def _all_steps(look: Look) -> Iterator[tuple[Step, tuple[str, ...]]]:
    """Yield each step of the definition, in its order, and the names of those it waits for."""
    started = {step.name: step for step in look.execution.steps}
    for item, around in _walk(look.definition.get("Steps", []), None):
        name = item["Name"]
        own = {
            key: value
            for key, value in item.items()
            if key != "Arguments" or item["Type"] != "Condition"
        }
        if item["Type"] == "Condition":
            own["Conditions"] = item["Arguments"].get("Conditions")
        waits = (
            each["Step"] if isinstance(each, dict) else each for each in item.get("DependsOn", ())
        )
        needed = {*waits, *_REFERENCE.findall(json.dumps(own))} - {name}
        if around:
            needed.add(around)
        yield started.get(name, Step(name, item["Type"], NOT_STARTED)), tuple(sorted(needed))


def _walk(
    steps: Sequence[dict[str, Any]], around: str | None
) -> Iterator[tuple[dict[str, Any], str | None]]:
    for item in steps:
        yield item, around
        for branch in _BRANCHES:
            arguments = item.get("Arguments")
            if item["Type"] == "Condition" and isinstance(arguments, dict):
                yield from _walk(arguments.get(branch, ()), item["Name"])


def _step(
    look: Look, step: Step, after: Sequence[str], job: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "name": step.name,
        "type": step.type,
        "status": step.status,
        "after": list(after),
        "started_at": _time(step.started_at),
        "ended_at": _time(step.ended_at),
        "seconds": step.seconds(look.now),
        "attempts": step.attempts,
        "reason": step.failure_reason or None,
        "job": job and job["name"],
        "phases": list(_phases(job)) if job else [],
    }


def _job(look: Look, step: Step) -> dict[str, Any] | None:
    """Return what Describe says of the step's job, with its name; None if it runs none."""
    for kind in _JOBS:
        if arn := step.resource(kind):
            return _described(look, kind, job_name(look.place.target, kind, arn, step.started_at))
    return None


def _described(look: Look, kind: str, name: str) -> dict[str, Any]:
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind)
    answer = getattr(look.client, f"describe{words}")(**{f"{kind}Name": name})
    return {**answer, "kind": kind, "name": name}


def _phases(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the secondary statuses of a training job: Starting, Downloading, Training, ..."""
    for each in job.get("SecondaryStatusTransitions", ()):
        if each["Status"] in _OVER:
            continue
        yield {
            "name": each["Status"],
            "started_at": _time(each["StartTime"]),
            "ended_at": _time(each.get("EndTime")),
            "message": each.get("StatusMessage", ""),
        }


def _lines(look: Look, step: Step, logs: LogCopy) -> list[LogLine]:
    """Return the lines of a step; where new ones are refused, those that were read before."""
    look.read(f"log of {step.name}", partial(logs.update, look.place.target, step))
    return logs.lines_of(step)


def _kept(lines: Sequence[LogLine]) -> dict[str, Any]:
    in_order = sorted(lines, key=lambda line: line.at)
    cut = max(len(in_order) - MAX_LINES, 0)
    if cut:
        in_order = in_order[: MAX_LINES // 2] + in_order[-MAX_LINES // 2 :]
    return {
        "cut": cut,
        "lines": [
            [_time(each.at), each.host or each.stream, rank_of(each.text), each.text[:MAX_LINE]]
            for each in in_order
        ],
    }


def parts_of(lines: Mapping[str, Sequence[LogLine]]) -> Iterator[dict[str, Any]]:
    """Yield where a step's time went, as a training printed it: the last such line of each host."""
    for name, some in lines.items():
        found = {
            line.host: match for line in some if (match := _PARTS.search(line.text[:MAX_LINE]))
        }
        for host, match in found.items():
            pairs = (part.split("=") for part in match["parts"].split())
            times = {part: float(ms) for part, ms in pairs if part != "whole"}
            yield {"step": name, "host": host or None, "milliseconds": times}


def _calls(look: Look) -> list[dict[str, Any]] | None:
    log, began = look.place.requests, look.execution.started_at
    if log is None or not log.exists():
        return None
    until = (_ended_at(look.execution) or look.now) + _CLOCK_SLACK
    return calls_in(log, f"{look.place.pipeline.name}-", began, until) if began else []


def _cleanups(look: Look) -> list[Cleanup]:
    execution, logs = look.execution, look.place.target.client("logs")
    if execution.started_at is None:
        return []
    span = execution.started_at, _ended_at(execution)
    return list(cleanups_of(logs, look.place.cleaners, execution.id, *span))


def _curves(look: Look, lines: Mapping[str, Sequence[LogLine]]) -> list[dict[str, Any]]:
    """Return the curves of each training step."""
    known = progress_metrics(look.place.metrics)
    began = look.execution.started_at
    return [
        {"step": step.name, **curve}
        for step in look.execution.steps
        if step.type == "Training" and began
        for curve in curves_of(lines.get(step.name, ()), known, began)
    ]


def _commit(look: Look, training: Mapping[str, Any] | None) -> str | None:
    """Return the commit whose code the training ran, as `Place.commit_of` does."""
    code = code_of(training) if training else ""
    return look.place.commit_of(code) if code else ""


def _package(look: Look) -> registry.Package | None:
    arns = (step.resource("RegisterModel") for step in look.execution.steps)
    arn = next((arn for arn in arns if arn), None)
    return registry.describe(look.place.target, arn) if arn else None


def _evaluation(look: Look) -> dict[str, Any] | None:
    step = look.execution.step("Evaluate")
    if step is None or step.status != "Succeeded":
        return None
    evaluation = evaluation_of(look.place.target, look.execution)
    return {
        "values": dict(evaluation.metrics),
        "content_sha256": evaluation.content_sha256,
        "archive_sha256": evaluation.archive_sha256,
    }


def _uses(
    look: Look,
    jobs: Mapping[str, Mapping[str, Any] | None],
    made: Sequence[Mapping[str, Any]],
    cleanups: Sequence[Cleanup] = (),
) -> Iterator[Use]:
    """Yield the instances that were used, and for how long."""
    for step in look.execution.steps:
        if job := jobs.get(step.name):
            if step.attempts > 1:
                yield from _earlier_uses(look, step, job)
            yield from _job_uses(look, step, job)
        elif any(step.resource(kind) for kind in _JOBS):
            yield Use(step.name, None, None, None, not step.has_ended)
        elif step.resource("Endpoint"):
            yield from _endpoint_uses(look, step, made, cleanups)


def _endpoint_uses(
    look: Look, step: Step, made: Sequence[Mapping[str, Any]], cleanups: Sequence[Cleanup]
) -> Iterator[Use]:
    """Yield the instances of each variant; those of an endpoint that is gone ran until it was
    deleted, by the teardown or later; where no log says when, until the run's end.
    """
    name = str(step.resource("Endpoint")).rpartition("/")[2].lower()
    ours = (each for each in made if each["kind"] == "Endpoint" and each["name"].lower() == name)
    is_gone = next(ours)["gone"]
    teardown = look.execution.step("Teardown")
    deleted_at = [each.at for each in cleanups if name in each.text.lower()]
    ended_at = (teardown and teardown.ended_at) or _ended_at(look.execution)
    ended_at = max([*deleted_at, *filter(None, [ended_at])], default=None)
    until = (is_gone and ended_at) or look.now
    seconds = None if is_gone is None else _seconds(step.started_at, until)
    for variant in _variants(look, step):
        kind, count = (
            _resolved(look, variant.get(key)) for key in ("InstanceType", "InitialInstanceCount")
        )
        yield Use(step.name, kind, count and int(count), seconds, is_gone is False)


def _variants(look: Look, endpoint: Step) -> list[Mapping[str, Any]]:
    """Return the variants of the configuration that the step names; one of which nothing is known
    if no step made that.
    """
    steps = {item["Name"]: item for item, _ in _walk(look.definition.get("Steps", []), None)}
    named = _REFERENCE.findall(json.dumps(steps.get(endpoint.name)))
    configs = (steps[name].get("Arguments", {}) for name in named if name in steps)
    return [each for config in configs for each in config.get("ProductionVariants", ())] or [{}]


def _resolved(look: Look, value: Any) -> Any:
    """Return a value of the definition, or the parameter's that stands for it."""
    if isinstance(value, dict):
        return look.parameters.get(str(value.get("Get")).removeprefix("Parameters."))
    return value


def _job_uses(look: Look, step: Step, job: Mapping[str, Any]) -> Iterator[Use]:
    place = job.get("ResourceConfig") or job.get("ProcessingResources", {}).get("ClusterConfig")
    place = place or job.get("TransformResources") or {}
    began = (
        job.get("TrainingStartTime")
        or job.get("ProcessingStartTime")
        or job.get("TransformStartTime")
    )
    ended = (
        job.get("TrainingEndTime") or job.get("ProcessingEndTime") or job.get("TransformEndTime")
    )
    if not began:
        return
    seconds = job.get("BillableTimeInSeconds") if ended else None
    if seconds is None:
        seconds = _seconds(began, ended or look.now) or 0.0
    kind, count = place.get("InstanceType"), place.get("InstanceCount")
    yield Use(step.name, kind, count, float(seconds), ended is None)


def _earlier_uses(look: Look, step: Step, last: Mapping[str, Any]) -> Iterator[Use]:
    """Yield the instances of the jobs that failed before a step's last one."""
    kind, unknown = last["kind"], Use(step.name, None, None, None, runs=False)
    since = look.execution.started_at or look.now
    source = partial(earlier_attempts, look.place.target, kind, last["name"], since)
    names = look.read(f"earlier attempts of {step.name}", source)
    if names is None:
        yield unknown
    for name in names or ():
        job = look.read(name, partial(_described, look, kind, name))
        yield from _job_uses(look, step, job) if job else [unknown]


def _made(look: Look, jobs: Mapping[str, Mapping[str, Any] | None]) -> Iterator[dict[str, Any]]:
    """Yield what the steps made, and whether it is gone: asked now, None if that was refused."""
    for step in look.execution.steps:
        for kind in (*_JOBS, *_RESOURCES):
            if not (arn := step.resource(kind)):
                continue
            name, state, is_gone = arn.rpartition("/")[2], NOT_KNOWN, None
            if kind in _RESOURCES:
                found = look.read(f"{kind} {name}", partial(_find, look, step, kind, arn))
                if found is not None:
                    name, is_gone = found.get(f"{kind}Name", name), not found
                    state = found.get("EndpointStatus", "there") if found else "deleted"
            elif job := jobs.get(step.name):
                name, state = job["name"], job[f"{kind}Status"]
                is_gone = state not in ("InProgress", "Stopping")
            yield {"kind": kind, "name": name, "state": state, "gone": is_gone}


def _find(look: Look, step: Step, kind: str, arn: str) -> Mapping[str, Any]:
    """Return the summary of what has this ARN, which is in lower case; nothing if it is gone."""
    since = {"CreationTimeAfter": step.started_at - _CLOCK_SLACK} if step.started_at else {}
    for page in look.client.get_paginator(_RESOURCES[kind]).paginate(**since):
        for each in page[next(key for key in page if key.startswith(kind))]:
            if each[f"{kind}Arn"].lower() == arn.lower():
                return dict(each)
    return {}


def _time(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="milliseconds") if at else None


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return round((end - start).total_seconds(), 3) if start and end else None
