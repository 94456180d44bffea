"""Proves that an execution's endpoint answers: sends ten real digits and judges schema, answers, latency and whose model it is.

In: a Lambda step's arguments `endpoint_name`, `training_job_name`, `max_latency_ms`. Out: `status`, `answers` (JSON list of
label, digit, probability), `slowest_ms`. Anything wrong raises SmokeTestError, which fails the step.
"""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

MIN_AGREEMENT = 9
_SUM_TOLERANCE = 1e-3
# No retries: a retried request would hide the latency and the error that this test is for.
_CLIENT = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=65)

log = logging.getLogger()
log.setLevel(logging.INFO)


class SmokeTestError(Exception):
    """The endpoint does not do what it is for."""


@dataclass(frozen=True)
class Answer:
    """What the endpoint said about one digit."""

    label: int
    digit: int
    probability: float
    training_job_name: str
    latency_ms: float


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the test against one endpoint; arguments of the step that this version does not know are ignored."""
    runtime = boto3.client("sagemaker-runtime", config=_CLIENT)
    digits = json.loads(Path(__file__).with_name("digits.json").read_text())["digits"]
    answers = [ask(runtime, event["endpoint_name"], digit["label"], digit["pixels"]) for digit in digits]
    log.info("answers: %s", answers)
    judge(answers, event["training_job_name"], float(event["max_latency_ms"]))
    slowest_ms = round(max(answer.latency_ms for answer in answers), 1)
    return {
        "status": "Passed",
        "answers": json.dumps([{"label": a.label, "digit": a.digit, "probability": round(a.probability, 4)} for a in answers]),
        "slowest_ms": slowest_ms,
    }


def ask(runtime: Any, endpoint_name: str, label: int, pixels: list[list[int]]) -> Answer:
    """Send one digit. Raises SmokeTestError when the endpoint refuses it or answers in another form than agreed."""
    started = time.perf_counter()
    try:
        response = runtime.invoke_endpoint(
            EndpointName=endpoint_name,
            ContentType="application/json",
            Accept="application/json",
            Body=json.dumps({"instances": [pixels]}).encode(),
        )
        body = response["Body"].read()
    except ClientError as error:
        raise SmokeTestError(f"{endpoint_name} refused a digit: {error}") from error
    latency_ms = (time.perf_counter() - started) * 1000
    try:
        return _parse(json.loads(body), label, latency_ms)
    except (KeyError, TypeError, ValueError) as error:
        raise SmokeTestError(f"{endpoint_name} answered in an unknown form ({error!r}): {body[:500]!r}") from error


def judge(answers: list[Answer], training_job_name: str, max_latency_ms: float) -> None:
    """Raise SmokeTestError with everything that is wrong."""
    problems = []
    models = {answer.training_job_name for answer in answers}
    if models != {training_job_name}:
        problems.append(f"the model comes from training job {sorted(models)}, not from this execution's {training_job_name}")
    right = sum(answer.digit == answer.label for answer in answers)
    if right < MIN_AGREEMENT:
        given = ", ".join(f"{answer.label} as {answer.digit}" for answer in answers if answer.digit != answer.label)
        problems.append(f"{right} of {len(answers)} digits right, {MIN_AGREEMENT} needed (took {given})")
    slowest_ms = max(answer.latency_ms for answer in answers)
    if slowest_ms > max_latency_ms:
        problems.append(f"the slowest answer took {slowest_ms:.0f} ms, {max_latency_ms:.0f} ms allowed")
    if problems:
        raise SmokeTestError("; ".join(problems))


def _parse(document: Any, label: int, latency_ms: float) -> Answer:
    (prediction,) = document["predictions"]
    probabilities = [float(value) for value in prediction["probabilities"]]
    if len(probabilities) != 10 or not math.isclose(sum(probabilities), 1.0, abs_tol=_SUM_TOLERANCE):
        raise ValueError(f"{len(probabilities)} probabilities with sum {sum(probabilities)}")
    digit = prediction["digit"]
    if digit != probabilities.index(max(probabilities)):
        raise ValueError(f"digit {digit!r} is not the most probable one")
    return Answer(label, digit, probabilities[digit], document["model"]["training_job_name"], latency_ms)
