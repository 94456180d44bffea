"""The results of a run: evaluation, answers, model package and training of an execution."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from shoal.verbs.errors import ShoalError
from shoal.verbs.evaluation import MAX_BYTES, Evaluation
from shoal.verbs.execution import Execution
from shoal.verbs.jobs import job_name
from shoal.verbs.metrics import Metrics, Parts, Progress, Reading
from shoal.verbs.target import Target

_EVALUATE, _REGISTER, _SMOKE_TEST = "Evaluate", "Register", "SmokeTest"


@dataclass(frozen=True)
class EndpointAnswer:
    """The endpoint's answer to one request of the smoke test."""

    request: str
    """Name of the file with the request's body."""
    passed: bool
    shown: Mapping[str, Any]
    """What the workload's file has under `smoke_test.show`."""


@dataclass(frozen=True)
class Course:
    """The course of one number while a training ran."""

    name: str
    unit: str
    last: float
    median: float


@dataclass(frozen=True)
class ModelPackage:
    """The registered model."""

    arn: str
    approval_status: str


def evaluation_of(target: Target, execution: Execution) -> Evaluation:
    """Return the evaluation.json that the processing job wrote to S3.

    Raises ShoalError if there is none, ValueError if it has another form.
    """
    return Evaluation.of(evaluation_text(target, execution))


def evaluation_text(target: Target, execution: Execution) -> bytes:
    """Return the bytes of that evaluation.json; raise ShoalError if there is none."""
    step = execution.step(_EVALUATE)
    arn = step.resource("ProcessingJob") if step else None
    if step is None or arn is None:
        raise ShoalError(f"execution {execution.id} has no processing job {_EVALUATE}")
    name = job_name(target, "ProcessingJob", arn, step.started_at)
    job = target.client("sagemaker").describe_processing_job(ProcessingJobName=name)
    uris = {
        output["OutputName"]: output["S3Output"]["S3Uri"]
        for output in job["ProcessingOutputConfig"]["Outputs"]
    }
    place = urlsplit(f"{uris['evaluation'].rstrip('/')}/evaluation.json")
    report = target.client("s3").get_object(Bucket=place.netloc, Key=place.path.lstrip("/"))
    return bytes(report["Body"].read(MAX_BYTES))


def answers_of(execution: Execution) -> tuple[EndpointAnswer, ...]:
    """Return the smoke test's output parameter `answers`; empty if the execution did not get that
    far. It has the first answers only where all are too long for a parameter.
    """
    step = execution.step(_SMOKE_TEST)
    text = step.output("answers") if step else None
    if not text:
        return ()
    return tuple(
        EndpointAnswer(str(item["request"]), bool(item["passed"]), dict(item["shown"]))
        for item in json.loads(text)
    )


def model_package_of(target: Target, execution: Execution) -> ModelPackage | None:
    """Return the model package that the execution registered, with its current approval status."""
    step = execution.step(_REGISTER)
    arn = step.resource("RegisterModel") if step else None
    if arn is None:
        return None
    package = target.client("sagemaker").describe_model_package(ModelPackageName=arn)
    return ModelPackage(arn, package["ModelApprovalStatus"])


def parts_of(metrics: Iterable[Metrics]) -> Parts | None:
    """Return who trained, as the job said last; None if it did not."""
    return next((entry for entry in reversed(list(metrics)) if isinstance(entry, Parts)), None)


def courses_of(metrics: Iterable[Metrics]) -> tuple[Course, ...]:
    """Return what training printed of each number by which it is followed."""
    readings: dict[str, list[Reading]] = {}
    for entry in metrics:
        for reading in entry.readings if isinstance(entry, Progress) else ():
            readings.setdefault(reading.name, []).append(reading)
    return tuple(
        Course(name, each[-1].unit, each[-1].value, median(reading.value for reading in each))
        for name, each in readings.items()
    )


def step_rows(execution: Execution) -> list[dict[str, Any]]:
    """Return one row per started step: name, type, status, seconds, and the reason if it failed."""
    return [
        {
            "name": step.name,
            "type": step.type,
            "status": step.status,
            "seconds": round(step.seconds() or 0.0, 2),
        }
        | ({"failure_reason": step.failure_reason} if step.failure_reason else {})
        for step in execution.steps
    ]


def curves(metrics: Sequence[Metrics]) -> dict[str, list[tuple[float, float]]]:
    """Return the points (step, value) of each number, with its unit in its name.

    The end of an epoch is its last step; without steps, epochs or lines count.
    """
    entries = [entry for entry in metrics if isinstance(entry, Progress)]
    per_epoch = max((each.position.steps for each in entries if each.position), default=0) or 1
    points: dict[str, list[tuple[float, float]]] = {}
    for number, entry in enumerate(entries, 1):
        position = entry.position
        x = number if position is None else position.steps_at(per_epoch)
        for reading in entry.readings:
            name = f"{reading.name} ({reading.unit})" if reading.unit else reading.name
            points.setdefault(name, []).append((float(x), reading.value))
    return points
