"""The results of a run: evaluation, answers and model package of an execution."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from shoal.aws.execution import Execution
from shoal.aws.jobs import job_name
from shoal.aws.target import Target
from shoal.errors import ShoalError
from shoal.page.readings.evaluation import MAX_BYTES, Evaluation

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
