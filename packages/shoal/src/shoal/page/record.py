"""run.json: everything that is known of one execution, as one object.

Built from Describe and List operations, CloudWatch Logs and S3 alone, so AWS and shoal-local give
the same; partial while it runs. Its form is `run.schema.json`. What could not be read is null, and
`unread` says why.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from shoal.aws import registry
from shoal.aws.execution import JOBS, Step
from shoal.aws.logs import lines_of
from shoal.aws.metrics import progress_metrics
from shoal.aws.objects import objects_at
from shoal.page.lineage import code_of, image_of, lineage_of
from shoal.page.look import Look, Place, seconds_between, time_text
from shoal.page.resources import (
    calls_of,
    cleanups_of,
    instances_of,
    money_of,
    resources_of,
    terms_of,
    uses_of,
    waited,
)
from shoal.page.results import GateResult, answers_of, evaluation_of, gates_of, package_of
from shoal.page.step_log import Cause, CauseSearch, StepLog
from shoal.pipelines import step_names

VERSION = 1
_OVER = ("Completed", "Failed", "Stopped", "MaxRuntimeExceeded")
"""Secondary statuses of a job that has ended, which is no phase of it."""
Logs = Mapping[str, StepLog]
"""The log of each step that printed something, by its name."""


def json_text(run: Mapping[str, Any], **form: Any) -> str:
    """Return a run, or another document, as JSON in ASCII: an endpoint may have answered NaN, which
    becomes null, or half of a character. `form` is what json.dumps takes.
    """
    text = json.dumps(run, default=_plain)
    finite = json.loads(text, parse_constant=lambda _: None)
    return json.dumps(finite, allow_nan=False, **form)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def record(place: Place, arn: str, *, with_logs: bool = True) -> dict[str, Any]:
    """Return the run with this ARN now; without logs it has no curves, cleanups and calls, either.

    Raises ClientError if the execution itself cannot be read.
    """
    look = Look.at(place, arn)
    jobs = {step.name: look.job(step) for step in look.execution.steps}
    logs = {
        step.name: log for step in look.execution.steps if with_logs and (log := _log(look, step))
    }
    target, execution = place.target, look.execution
    gates = look.read("gates", lambda: gates_of(target, execution), ())
    evaluation = _evaluation(look)
    package = look.read("model package", lambda: package_of(target, execution), None)
    resources = list(resources_of(look, jobs))
    cleanups = look.read("cleanups", lambda: [*cleanups_of(look)], []) if with_logs else []
    training = next((job for job in jobs.values() if job and job["kind"] == "TrainingJob"), None)
    code = code_of(training) if training else ""
    commit = look.read("commit", lambda: place.commit_of(code) if code else "", None)
    lineage = lineage_of(execution, training, evaluation, package, commit)
    return {
        "version": VERSION,
        "observed_at": time_text(look.now),
        "run": _run(look),
        "verdict": verdict_of(look, gates, logs, package),
        "training": training_of(look, training, logs),
        "parameters": dict(look.parameters),
        "steps": [_step(look, step, after, jobs.get(step.name)) for step, after in look.steps()],
        "cleanups": [asdict(each) | {"at": time_text(each.at)} for each in cleanups],
        "curves": _of_each(logs, lambda log: log.curves.records()),
        "parts": _of_each(logs, StepLog.parts),
        "gates": [asdict(each) for each in gates],
        "metrics": evaluation,
        "answers": look.read("answers", lambda: answers_of(execution), []),
        "package": package
        and {
            "arn": package.arn,
            "version": package.version,
            "approval": package.approval,
            "archive": package.model_data_url,
        },
        "money": money_of(uses_of(look, jobs, resources, cleanups), place.price_of)
        | {"tags": dict(place.cost_tags)},
        "lineage": [asdict(link) for link in lineage],
        "made": resources,
        "calls": look.read("calls", lambda: calls_of(look), None) if with_logs else None,
        "logs": {name: log.record() for name, log in logs.items()},
        "unread": look.unread,
    }


def _run(look: Look) -> dict[str, Any]:
    execution, place = look.execution, look.place
    definition = json.dumps(look.definition, sort_keys=True).encode()
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
        "started_at": time_text(execution.started_at),
        "ended_at": time_text(look.ended_at),
        "seconds": seconds_between(execution.started_at, look.ended_at or look.now),
        "definition_sha256": hashlib.sha256(definition).hexdigest(),
    }


def verdict_of(
    look: Look, gates: Sequence[GateResult], logs: Logs, package: registry.Package | None
) -> dict[str, Any]:
    """Return how the run went, whose fault a failure is, and the command that comes `next`."""
    execution, arguments, step = look.execution, look.place.arguments, None
    reason, cause = None, Cause("")
    command = f"status {arguments}"
    if execution.status == "Succeeded":
        if package and package.approval != registry.APPROVED:
            command = f"release approve {arguments} {package.version}"
    elif not execution.has_ended:
        verb = "status" if execution.status == "Stopping" else "stop"
        command = f"{verb} {arguments} {execution.id}"
    else:
        step = execution.failed_step
        reason = (step or execution).failure_reason or None
    if step:
        if any(step.resource(kind) for kind in (*JOBS, "Lambda", "Endpoint")):
            command = f"logs {arguments} {execution.id} {step.name}"
        if missed := [str(each) for each in gates if each.passed is False]:
            steps = {each["Name"]: each for each in look.definition["Steps"]}
            otherwise = steps[step_names.GATE]["Arguments"].get("ElseSteps", ())
            if step.name in {each["Name"] for each in otherwise}:
                reason = "; ".join(missed)
        log = logs.get(step.name)
        cause = (log and log.causes and log.causes.cause) or cause
    return {
        "outcome": execution.status,
        "step": step and step.name,
        "reason": reason,
        "host": cause.host or None,
        "rank": cause.rank,
        "line": cause.line or None,
        "next": f"shoal {command}",
    }


def training_of(look: Look, job: Mapping[str, Any] | None, logs: Logs) -> dict[str, Any] | None:
    """Return what was trained, and on what; None where no training has begun."""
    if job is None:
        return None
    kind, count = instances_of(job.get("ResourceConfig", {}))
    given = job.get("HyperParameters", {})
    server = str(job.get("Environment", {}).get("MLFLOW_TRACKING_URI", "")).rstrip("/")
    places = (log.tracked_at for log in logs.values() if server)
    said = (each for each in places if each.startswith(f"{server}/#/"))
    steps = (step for step in look.execution.steps if step.resource("TrainingJob"))
    return {
        "image": image_of(job),
        "strategy": look.place.strategy,
        "instance_type": kind,
        "instance_count": count,
        "terms": terms_of(job),
        "waited": waited(look, next(steps, None), job),
        "processes": next(filter(None, (log.curves.processes for log in logs.values())), None),
        "mlflow": next(said, server) or None,
        "checkpoint": checkpoint_of(look, job),
        "hyperparameters": {
            name: str(value).strip('"')
            for name, value in sorted(given.items())
            if not name.startswith("sagemaker_")  # those are the toolkit's
        },
    }


def checkpoint_of(look: Look, job: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the newest object below the folder of a running training's checkpoints, and its age:
    what has not reached S3 is lost with the instances. None where there is none.
    """
    if not job or job.get("TrainingJobStatus") not in ("InProgress", "Stopping"):
        return None
    bucket, _, key = job.get("CheckpointConfig", {}).get("S3Uri", "")[5:].partition("/")
    with look.noting("checkpoint"):
        listed = objects_at(look.place.target, f"s3://{bucket}/{key}/") if bucket else ()
        if objects := [(each["LastModified"], name) for name, each in listed]:
            at, file = max(objects)
            return {"file": file, "at": time_text(at), "seconds": seconds_between(at, look.now)}
    return None


def _step(
    look: Look, step: Step, after: Sequence[str], job: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "name": step.name,
        "type": step.type,
        "status": step.status,
        "after": after,
        "started_at": time_text(step.started_at),
        "ended_at": time_text(step.ended_at),
        "seconds": step.seconds(look.now),
        "attempts": step.attempts,
        "reason": step.failure_reason or None,
        "job": job and job["name"],
        "phases": [
            {
                "name": each["Status"],
                "started_at": time_text(each["StartTime"]),
                "ended_at": time_text(each.get("EndTime")),
                "message": each.get("StatusMessage", ""),
            }
            for each in (job or {}).get("SecondaryStatusTransitions", ())
            if each["Status"] not in _OVER
        ],
    }


def _log(look: Look, step: Step) -> StepLog | None:
    """Return what is shown of a step's log; None of a step that has printed nothing."""
    known = progress_metrics(look.place.metrics) if step.type == "Training" else {}
    own = step.failure_reason if step.type == "Lambda" else ""  # runs share a function's log
    causes = CauseSearch(own) if step.status == "Failed" else None
    log = StepLog(look.execution.started_at or look.now, known, causes)
    with look.noting(f"log of {step.name}"):
        for line in lines_of(look.place.target, step):
            log.add(line)
    if lost := log.curves.lost:
        look.unread.append(f"curves of {step.name}: {lost} values of too many lanes")
    return log or None


def _of_each(
    logs: Logs, read: Callable[[StepLog], Iterator[dict[str, Any]]]
) -> list[dict[str, Any]]:
    return [{"step": step, **each} for step, log in logs.items() for each in read(log)]


def _evaluation(look: Look) -> dict[str, Any] | None:
    with look.noting("evaluation"):
        step = look.execution.step(step_names.EVALUATE)
        if step and step.status == "Succeeded":
            evaluation = evaluation_of(look.place.target, look.execution)
            return {
                "values": dict(evaluation.metrics),
                "content_sha256": evaluation.content_sha256,
                "archive_sha256": evaluation.archive_sha256,
            }
    return None
