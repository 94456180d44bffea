"""Proves that an execution's endpoint answers: sends the workload's requests and judges the
answers, the latency and which model answered.

The Lambda step sends `endpoint_name`, `training_job_name`, `content_sha256` (of the evaluated
model; the container must answer with the same) and `max_latency_ms`. With `sealed_archive` the
container is one whose answers name no model: then the endpoint's only archive must be that.
It gets `status`, `answers` (JSON list of request, passed, shown), `slowest_ms` and
`content_sha256` (as the answers name it; empty with `sealed_archive`). A problem raises
SmokeTestError, which fails the step.
"""

import json
import logging
import re
from typing import Any

import boto3
import smoke_test
from model_archive import model_data_of
from smoke_test import CLIENT, Answer, SmokeTestError, ask_all, own_failures, sources, wrong_answers

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_OUTPUT = 1024
"""Characters of a Lambda step's output parameter (botocore 1.44.5, OutputParameter; read)."""

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the test against one endpoint; unknown arguments of the step are ignored.

    Raises SmokeTestError with everything that is wrong, and without a hash: nothing could be proven
    then.
    """
    return dict(smoke_test.in_time(lambda: _test(event), context))


def _test(event: dict[str, Any]) -> dict[str, Any]:
    # `sealed_archive` is a URL, where no answer says which model gave it
    content, sealed = event.get("content_sha256"), event.get("sealed_archive")
    if not isinstance(content, str) or not _SHA256.fullmatch(content):
        wrong = f"content_sha256 is {content!r}, not the sha256 of a model's content"
        raise SmokeTestError(f"{wrong}: what does evaluation.json say at model.content_sha256?")
    runtime = boto3.client("sagemaker-runtime", config=CLIENT)
    answers = ask_all(runtime, event["endpoint_name"])
    log.info("answers: %s", answers)
    failures = own_failures(runtime, event["endpoint_name"])
    if sealed:
        failures += _wrong_archive(event["endpoint_name"], sealed)
    problems = [] if sealed else _wrong_source(answers, event["training_job_name"], content)
    problems += [*wrong_answers(answers), *failures]
    slowest_ms, max_ms = max(each.latency_ms for each in answers), float(event["max_latency_ms"])
    if slowest_ms > max_ms:
        problems.append(f"the slowest answer took {slowest_ms:.0f} ms, {max_ms:.0f} ms allowed")
    if problems:
        raise SmokeTestError("; ".join(problems))
    return {
        "status": "Passed",
        "answers": _report(answers),
        "slowest_ms": round(slowest_ms, 1),
        "content_sha256": "" if sealed else content,
    }


def _wrong_source(answers: list[Answer], training_job_name: str, evaluated: str) -> list[str]:
    """Return what the answers say of their model that is not so."""
    problems = []
    models = {str(source.training_job_name) for source in sources(answers)}
    if models != {training_job_name}:
        problems.append(
            f"the model comes from training job {sorted(models)}, not from this execution's"
            f" {training_job_name}"
        )
    contents = {str(source.content_sha256) for source in sources(answers)}
    if contents != {evaluated}:
        problems.append(
            f"the container serves a model with the content {sorted(contents)}, evaluated was"
            f" {evaluated}"
        )
    return problems


def _wrong_archive(endpoint_name: str, expected: str) -> list[str]:
    """Return what the endpoint serves instead of the sealed archive."""
    sagemaker = boto3.client("sagemaker")
    live = sagemaker.describe_endpoint(EndpointName=endpoint_name)
    config = sagemaker.describe_endpoint_config(EndpointConfigName=live["EndpointConfigName"])
    models = [
        sagemaker.describe_model(ModelName=variant["ModelName"])
        for variant in config["ProductionVariants"]
    ]
    archives = [model_data_of(model["PrimaryContainer"]) for model in models]
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
