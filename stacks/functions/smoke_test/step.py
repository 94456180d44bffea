"""Proves that an execution's endpoint answers: sends ten real digits and judges the schema, the
answers, the latency and which model answered.

The Lambda step sends `endpoint_name`, `training_job_name`, `content_sha256` (of the evaluated
model; the container must answer with the same) and `max_latency_ms`. It gets `status`, `answers`
(JSON list of label, digit, probability), `slowest_ms` and `content_sha256`. A problem raises
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
    content_sha256: str
    max_latency_ms: float

    @classmethod
    def of(cls, event: dict[str, Any]) -> Expected:
        """Read the step's arguments.

        Raises SmokeTestError without a hash: nothing could be proven then.
        """
        content = event.get("content_sha256")
        if not isinstance(content, str) or not _SHA256.fullmatch(content):
            wrong = f"content_sha256 is {content!r}, not the sha256 of a model's content"
            raise SmokeTestError(f"{wrong}: what does evaluation.json say at model.content_sha256?")
        return cls(event["training_job_name"], content, float(event["max_latency_ms"]))


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
        "content_sha256": expected.content_sha256,
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
    content = {str(answer.content_sha256) for answer in answers}
    if content != {expected.content_sha256}:
        problems.append(
            f"the container serves a model with the content {sorted(content)}, evaluated was"
            f" {expected.content_sha256}"
        )
    problems += wrong_digits(answers)
    slowest_ms = max(answer.latency_ms for answer in answers)
    if slowest_ms > expected.max_latency_ms:
        problems.append(
            f"the slowest answer took {slowest_ms:.0f} ms, {expected.max_latency_ms:.0f} ms allowed"
        )
    if problems:
        raise SmokeTestError("; ".join(problems))
