"""Proves that an execution's endpoint answers: sends ten real digits and judges the schema, the
answers, the latency and which model answered.

The Lambda step sends `endpoint_name`, `training_job_name`, `weights_sha256` (of the evaluated
weights; the container must answer with the same) and `max_latency_ms`. It gets `status`, `answers`
(JSON list of label, digit, probability), `slowest_ms` and `weights_sha256`. A problem raises
SmokeTestError, which fails the step.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from typing import Any

import boto3
from digits import CLIENT, Answer, SmokeTestError, ask_all, wrong_digits

_SHA256 = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger()
log.setLevel(logging.INFO)


@dataclass(frozen=True)
class Expected:
    """Which model must answer, and how fast."""

    training_job_name: str
    weights_sha256: str
    max_latency_ms: float

    @classmethod
    def of(cls, event: dict[str, Any]) -> Expected:
        """Read the step's arguments.

        Raises SmokeTestError without a hash: nothing could be proven then.
        """
        weights = event.get("weights_sha256")
        if not isinstance(weights, str) or not _SHA256.fullmatch(weights):
            wrong = f"weights_sha256 is {weights!r}, not the sha256 of weights"
            raise SmokeTestError(f"{wrong}: what does evaluation.json say at model.weights_sha256?")
        return cls(event["training_job_name"], weights, float(event["max_latency_ms"]))


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the test against one endpoint; unknown arguments of the step are ignored."""
    expected = Expected.of(event)
    runtime = boto3.client("sagemaker-runtime", config=CLIENT)
    answers = ask_all(runtime, event["endpoint_name"])
    log.info("answers: %s", answers)
    judge(answers, expected)
    slowest_ms = round(max(answer.latency_ms for answer in answers), 1)
    return {
        "status": "Passed",
        "answers": json.dumps(
            [
                {"label": a.label, "digit": a.digit, "probability": round(a.probability, 4)}
                for a in answers
            ]
        ),
        "slowest_ms": slowest_ms,
        "weights_sha256": expected.weights_sha256,
    }


def judge(answers: list[Answer], expected: Expected) -> None:
    """Raise SmokeTestError with everything that is wrong."""
    problems = []
    models = {answer.training_job_name for answer in answers}
    if models != {expected.training_job_name}:
        problems.append(
            f"the model comes from training job {sorted(models)}, not from this execution's"
            f" {expected.training_job_name}"
        )
    weights = {str(answer.weights_sha256) for answer in answers}
    if weights != {expected.weights_sha256}:
        problems.append(
            f"the container serves weights with the sha256 {sorted(weights)}, evaluated were"
            f" {expected.weights_sha256}"
        )
    problems += wrong_digits(answers)
    slowest_ms = max(answer.latency_ms for answer in answers)
    if slowest_ms > expected.max_latency_ms:
        problems.append(
            f"the slowest answer took {slowest_ms:.0f} ms, {expected.max_latency_ms:.0f} ms allowed"
        )
    if problems:
        raise SmokeTestError("; ".join(problems))
