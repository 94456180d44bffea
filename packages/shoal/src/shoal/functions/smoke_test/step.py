"""Proves that an execution's endpoint answers: sends the workload's requests and judges the
answers, the latency and which model answered.

The Lambda step sends `endpoint_name`, `training_job_name`, `content_sha256` (of the evaluated
model; the container must answer with the same) and `max_latency_ms`. With `sealed_archive` the
container is one whose answers name no model: then the endpoint's only archive must be that.
It gets `status`, `answers` (JSON list of request, passed, shown), `slowest_ms` and
`content_sha256` (as the answers name it; empty with `sealed_archive`). A problem raises
SmokeTestError, which fails the step.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from typing import Any

import boto3
import smoke_test
from smoke_test import CLIENT, Answer, SmokeTestError, ask_all, own_failures, sources, wrong_answers

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_OUTPUT = 1024
"""Characters of a Lambda step's output parameter (botocore 1.44.5, OutputParameter; read)."""

log = logging.getLogger()
log.setLevel(logging.INFO)


@dataclass(frozen=True)
class Expected:
    """Which model must answer, and how fast."""

    training_job_name: str
    content_sha256: str
    max_latency_ms: float
    sealed_archive: str | None = None
    """Its URL, where no answer says which model gave it."""

    @classmethod
    def of(cls, event: dict[str, Any]) -> Expected:
        """Read the step's arguments.

        Raises SmokeTestError without a hash: nothing could be proven then.
        """
        content = event.get("content_sha256")
        if not isinstance(content, str) or not _SHA256.fullmatch(content):
            wrong = f"content_sha256 is {content!r}, not the sha256 of a model's content"
            raise SmokeTestError(f"{wrong}: what does evaluation.json say at model.content_sha256?")
        return cls(
            event["training_job_name"],
            content,
            float(event["max_latency_ms"]),
            event.get("sealed_archive"),
        )


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the test against one endpoint; unknown arguments of the step are ignored."""
    expected = Expected.of(event)
    runtime = boto3.client("sagemaker-runtime", config=CLIENT)
    answers = ask_all(runtime, event["endpoint_name"])
    log.info("answers: %s", answers)
    failures = own_failures(runtime, event["endpoint_name"])
    if expected.sealed_archive:
        failures += _wrong_archive(event["endpoint_name"], expected.sealed_archive)
    judge(answers, expected, failures)
    slowest_ms = round(max(answer.latency_ms for answer in answers), 1)
    return {
        "status": "Passed",
        "answers": _report(answers),
        "slowest_ms": slowest_ms,
        "content_sha256": "" if expected.sealed_archive else _contents(answers).pop(),
    }


def judge(answers: list[Answer], expected: Expected, failures: list[str]) -> None:
    """Raise SmokeTestError with everything that is wrong, the `failures` of the workload's own
    function included.
    """
    problems = [] if expected.sealed_archive else _wrong_source(answers, expected)
    problems += [*wrong_answers(answers), *failures]
    slowest_ms = max(answer.latency_ms for answer in answers)
    if slowest_ms > expected.max_latency_ms:
        problems.append(
            f"the slowest answer took {slowest_ms:.0f} ms, {expected.max_latency_ms:.0f} ms allowed"
        )
    if problems:
        raise SmokeTestError("; ".join(problems))


def _wrong_source(answers: list[Answer], expected: Expected) -> list[str]:
    """Return what the answers say of their model that is not so."""
    problems = []
    models = {str(source.training_job_name) for source in sources(answers)}
    if models != {expected.training_job_name}:
        problems.append(
            f"the model comes from training job {sorted(models)}, not from this execution's"
            f" {expected.training_job_name}"
        )
    content = _contents(answers)
    if content != {expected.content_sha256}:
        problems.append(
            f"the container serves a model with the content {sorted(content)}, evaluated was"
            f" {expected.content_sha256}"
        )
    return problems


def _contents(answers: list[Answer]) -> set[str]:
    """Return the digests that the answers name."""
    return {str(source.content_sha256) for source in sources(answers)}


def _wrong_archive(endpoint_name: str, expected: str) -> list[str]:
    """Return what the endpoint serves instead of the sealed archive."""
    sagemaker = boto3.client("sagemaker")
    live = sagemaker.describe_endpoint(EndpointName=endpoint_name)
    config = sagemaker.describe_endpoint_config(EndpointConfigName=live["EndpointConfigName"])
    models = [
        sagemaker.describe_model(ModelName=variant["ModelName"])
        for variant in config["ProductionVariants"]
    ]
    archives = [smoke_test.model_data_of(model["PrimaryContainer"]) for model in models]
    if archives == [expected]:
        return []
    return [f"the endpoint has the archive {', '.join(map(str, archives))}, sealed was {expected}"]


def _report(answers: list[Answer]) -> str:
    """Return as many answers as an output parameter takes, from the first one on."""
    rows = [
        {"request": answer.request, "passed": answer.passed, "shown": answer.shown}
        for answer in answers
    ]
    texts = (json.dumps(rows[:count], separators=(",", ":")) for count in range(len(rows), 0, -1))
    return next((text for text in texts if len(text) <= _MAX_OUTPUT), "[]")
