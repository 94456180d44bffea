"""Sends ten real digits to an endpoint and reads its answers."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError

MIN_AGREEMENT = 9
# No retries: a retried request would hide the latency and the error that this is for.
CLIENT = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=65)
_SUM_TOLERANCE = 1e-3


class SmokeTestError(Exception):
    """The endpoint does not do what it should."""


@dataclass(frozen=True)
class Answer:
    """The endpoint's answer to one digit."""

    label: int
    digit: int
    probability: float
    training_job_name: str
    content_sha256: str | None
    """None where the container does not say."""
    latency_ms: float


def ask_all(runtime: Any, endpoint_name: str) -> list[Answer]:
    """Return the endpoint's answers to the ten digits. Raises SmokeTestError."""
    digits = json.loads(Path(__file__).with_name("digits.json").read_text())["digits"]
    return [ask(runtime, endpoint_name, digit["label"], digit["pixels"]) for digit in digits]


def ask(runtime: Any, endpoint_name: str, label: int, pixels: list[list[int]]) -> Answer:
    """Send one digit.

    Raises SmokeTestError when the endpoint refuses it or answers in another form than agreed.
    """
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
        raise SmokeTestError(
            f"{endpoint_name} answered in an unknown form ({error!r}): {body[:500]!r}"
        ) from error


def wrong_digits(answers: list[Answer]) -> list[str]:
    """Return what is wrong with the answers; nothing if enough are right."""
    right = sum(answer.digit == answer.label for answer in answers)
    if right >= MIN_AGREEMENT:
        return []
    mistakes = ", ".join(
        f"{answer.label} as {answer.digit}" for answer in answers if answer.digit != answer.label
    )
    return [f"{right} of {len(answers)} digits right, {MIN_AGREEMENT} needed (took {mistakes})"]


def _parse(document: Any, label: int, latency_ms: float) -> Answer:
    (prediction,) = document["predictions"]
    probabilities = [float(value) for value in prediction["probabilities"]]
    if len(probabilities) != 10 or not math.isclose(
        sum(probabilities), 1.0, abs_tol=_SUM_TOLERANCE
    ):
        raise ValueError(f"{len(probabilities)} probabilities with sum {sum(probabilities)}")
    digit = prediction["digit"]
    if digit != probabilities.index(max(probabilities)):
        raise ValueError(f"digit {digit!r} is not the most probable one")
    model = document["model"]
    return Answer(
        label,
        digit,
        probabilities[digit],
        model["training_job_name"],
        model.get("content_sha256"),
        latency_ms,
    )
