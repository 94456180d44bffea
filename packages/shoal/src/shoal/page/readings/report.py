"""The results of a run: evaluation, answers and model package of an execution."""

from __future__ import annotations

import json
from typing import Any

from shoal.aws.execution import Execution
from shoal.aws.jobs import job_name
from shoal.aws.objects import object_at
from shoal.aws.registry import Package, describe
from shoal.aws.target import Target
from shoal.errors import ShoalError
from shoal.page.readings.evaluation import MAX_BYTES, Evaluation
from shoal.pipelines import step_names


def evaluation_of(target: Target, execution: Execution) -> Evaluation:
    """Return the evaluation.json that the processing job wrote to S3.

    Raises ShoalError if there is none, ValueError if it has another form.
    """
    return Evaluation.of(evaluation_text(target, execution))


def evaluation_text(target: Target, execution: Execution) -> bytes:
    """Return the bytes of that evaluation.json; raise ShoalError if there is none."""
    step = execution.step(step_names.EVALUATE)
    arn = step.resource("ProcessingJob") if step else None
    if step is None or arn is None:
        raise ShoalError(f"execution {execution.id} has no processing job {step_names.EVALUATE}")
    name = job_name(target, "ProcessingJob", arn, step.started_at)
    job = target.client("sagemaker").describe_processing_job(ProcessingJobName=name)
    uris = {
        output["OutputName"]: output["S3Output"]["S3Uri"]
        for output in job["ProcessingOutputConfig"]["Outputs"]
    }
    place = object_at(f"{uris['evaluation'].removesuffix('/')}/evaluation.json")
    report = target.client("s3").get_object(**place)
    return bytes(report["Body"].read(MAX_BYTES))


def answers_of(execution: Execution) -> list[dict[str, Any]]:
    """Return the smoke test's output parameter `answers`: for each of its requests whether the
    endpoint's answer passed, and what is `shown` of it.

    Empty if the execution did not get that far. It has the first answers only where all are too
    long for a parameter.
    """
    step = execution.step(step_names.SMOKE_TEST)
    text = step.output("answers") if step else None
    return [
        {
            "request": str(each["request"]),
            "passed": bool(each["passed"]),
            "shown": dict(each["shown"]),
        }
        for each in json.loads(text or "[]")
    ]


def package_of(target: Target, execution: Execution) -> Package | None:
    """Return the version that the execution registered, as it is now; None if it did not.

    Raises ClientError or NotFoundError if that cannot be read.
    """
    arns = (step.resource("RegisterModel") for step in execution.steps)
    arn = next(filter(None, arns), None)
    return describe(target, arn) if arn else None
