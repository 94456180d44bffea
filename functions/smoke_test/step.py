"""Proves that an execution's endpoint answers: sends ten real digits and judges schema, answers, latency and whose model it is.

In: a Lambda step's arguments `endpoint_name`, `training_job_name`, `max_latency_ms`. Out: `status`, `answers` (JSON list of
label, digit, probability), `slowest_ms`. Anything wrong raises SmokeTestError, which fails the step.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import boto3
from digits import CLIENT, Answer, SmokeTestError, ask_all, wrong_digits

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the test against one endpoint; arguments of the step that this version does not know are ignored."""
    runtime = boto3.client("sagemaker-runtime", config=CLIENT)
    answers = ask_all(runtime, event["endpoint_name"])
    log.info("answers: %s", answers)
    judge(answers, event["training_job_name"], float(event["max_latency_ms"]))
    slowest_ms = round(max(answer.latency_ms for answer in answers), 1)
    return {
        "status": "Passed",
        "answers": json.dumps([{"label": a.label, "digit": a.digit, "probability": round(a.probability, 4)} for a in answers]),
        "slowest_ms": slowest_ms,
    }


def judge(answers: list[Answer], training_job_name: str, max_latency_ms: float) -> None:
    """Raise SmokeTestError with everything that is wrong."""
    problems = []
    models = {answer.training_job_name for answer in answers}
    if models != {training_job_name}:
        problems.append(f"the model comes from training job {sorted(models)}, not from this execution's {training_job_name}")
    problems += wrong_digits(answers)
    slowest_ms = max(answer.latency_ms for answer in answers)
    if slowest_ms > max_latency_ms:
        problems.append(f"the slowest answer took {slowest_ms:.0f} ms, {max_latency_ms:.0f} ms allowed")
    if problems:
        raise SmokeTestError("; ".join(problems))
