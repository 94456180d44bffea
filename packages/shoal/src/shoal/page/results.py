"""The results of a run: evaluation, gates, answers and model package of an execution.

The pipeline's own evaluate.py writes its report well formed; a user's script may write anything.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.execution import Execution, definition_of, given_parameters, job_name
from shoal.aws.objects import object_at
from shoal.aws.registry import Package, describe
from shoal.aws.target import Target
from shoal.errors import ShoalError
from shoal.pipelines import step_names

MAX_BYTES = 1024 * 1024
"""A longer report was not written by an honest evaluation."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMPOSITE_SHA256 = re.compile(r"[A-Za-z0-9+/]{43}=-[1-9][0-9]{0,4}")


@dataclass(frozen=True)
class Evaluation:
    """The content of a report."""

    metrics: Mapping[str, int | float]
    """Every number among its metrics, all finite."""
    content_sha256: str
    """Digest of the model that was measured, which its container answers too."""
    archive_sha256: str
    """Hash of the archive that it was in."""
    archive_composite_sha256: str | None
    """S3's composite hash of that archive in parts, which only archives above 5 GB need; None where
    an evaluation of one's own measured none.
    """

    @classmethod
    def of(cls, text: bytes) -> "Evaluation":
        """Parse the bytes of a report; raise ValueError with what is wrong in it."""
        try:
            report = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError("is not JSON") from error
        if not isinstance(report, dict):
            raise ValueError("is no JSON object")  # noqa: TRY004 - of the text, not of an argument
        model, composite = _object(report, "model"), "archive_composite_sha256"
        return cls(
            _numbers(_object(report, "metrics")),
            _hash(model, "content_sha256"),
            _hash(model, "archive_sha256"),
            _hash(model, composite, _COMPOSITE_SHA256, "composite ")
            if model.get(composite)
            else None,
        )


def _object(report: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = report.get(key, {})
    if not isinstance(value, dict):
        raise ValueError(f"has {json.dumps(value)[:40]} as `{key}`, where an object belongs")  # noqa: TRY004 - as above
    return value


def _hash(
    model: Mapping[str, Any], key: str, form: re.Pattern[str] = _SHA256, kind: str = ""
) -> str:
    value = model.get(key)
    if not isinstance(value, str) or not form.fullmatch(value):
        shown = json.dumps(value)[:40]
        raise ValueError(f"has {shown} as `model.{key}`, where a {kind}sha256 belongs")
    return value


def _numbers(metrics: Mapping[str, Any]) -> dict[str, int | float]:
    numbers = {
        name: metric["value"]
        for name, metric in metrics.items()
        if isinstance(metric, dict) and type(metric.get("value")) in (int, float)
    }
    for name, value in numbers.items():
        if not abs(value) <= sys.float_info.max:  # of NaN too, which is neither less nor more
            raise ValueError(f"has no finite number as the metric {json.dumps(name)}")
    return numbers


def evaluation_of(target: Target, execution: Execution) -> Evaluation:
    """Return the evaluation; raise ShoalError if there is none, ValueError for another form."""
    return Evaluation.of(evaluation_text(target, execution))


def evaluation_text(target: Target, execution: Execution) -> bytes:
    """Return the evaluation.json that the job wrote to S3; raise ShoalError if there is none."""
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
    """Return the version that the execution registered, as it is now; raise as `describe`."""
    arns = (step.resource("RegisterModel") for step in execution.steps)
    arn = next(filter(None, arns), None)
    return describe(target, arn) if arn else None


_WORDS = {"GreaterThanOrEqualTo": "at least", "LessThanOrEqualTo": "at most"}
_METRIC = re.compile(r"metrics\.(\w+)\.value")
_MARGIN = re.compile(r"Steps\.[\w-]+\.OutputParameters\['margin_of_(\w+)'\]")


@dataclass(frozen=True)
class GateResult:
    """One condition of the step Gate."""

    metric: str
    limit: str
    """As in `at least 0.98`, or `at least 0.97 (version 3, approved, has 0.98)`."""
    value: int | float | None
    """None where the report cannot be read."""
    passed: bool | None = None
    """None where it is not known."""

    def __str__(self) -> str:
        value = "not readable" if self.value is None else format(self.value, "g")
        return f"{self.metric} {value}, must be {self.limit}"


def gates_of(target: Target, execution: Execution) -> tuple[GateResult, ...]:
    """Return the gates that the execution has come to; of a user's own pipeline maybe none."""
    if execution.step(step_names.GATE) is None:
        return ()
    client = target.client("sagemaker")
    definition = definition_of(client, execution.arn)
    # whether AWS lists those that nobody gave a value is not documented
    parameters = {
        each["Name"]: str(each["DefaultValue"])
        for each in definition.get("Parameters", ())
        if "DefaultValue" in each
    }
    parameters |= given_parameters(client, execution.arn)
    metrics: Mapping[str, int | float] = {}
    # There are none where the report is gone, malformed, or not to be read by these credentials:
    # the status of an execution is more than its gates.
    with suppress(ClientError, ShoalError, ValueError):
        metrics = evaluation_of(target, execution).metrics
    return tuple(
        _fixed(metric, word, parameters.get(parameter), metrics.get(metric))
        if word
        else _compared(execution, metric, metrics.get(metric))
        for metric, word, parameter in conditions(definition)
    )


def _fixed(metric: str, word: str, limit: str | None, value: float | None) -> GateResult:
    """Return a gate whose limit is a parameter's value."""
    passed = None
    if value is not None and limit is not None:
        with suppress(ValueError):
            passed = value >= float(limit) if word == "at least" else value <= float(limit)
    return GateResult(metric, f"{word} {limit or '?'}", value, passed)


def _compared(execution: Execution, metric: str, value: float | None) -> GateResult:
    """Return a gate whose limit the step Compare computed: it judged, and rounds what it says."""
    step = execution.step(step_names.COMPARE)
    limit, reason, margin = (
        step.output(f"{part}_of_{metric}") if step else None
        for part in ("limit", "reason", "margin")
    )
    passed = None if margin is None else float(margin) >= 0
    return GateResult(metric, f"{limit} ({reason})", value, passed)


def conditions(definition: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield metric, comparison in words and parameter of each condition that has Shoal's form; both
    are empty for a comparison with the approved version.
    """
    steps = {step["Name"]: step for step in definition.get("Steps", [])}
    for condition in steps.get(step_names.GATE, {}).get("Arguments", {}).get("Conditions", []):
        left, right = condition.get("LeftValue"), condition.get("RightValue")
        path = left.get("Std:JsonGet", {}).get("Path", "") if isinstance(left, dict) else ""
        parameter = right.get("Get", "") if isinstance(right, dict) else ""
        if isinstance(left, dict) and (margin := _MARGIN.fullmatch(left.get("Get", ""))):
            yield margin[1], "", ""
            continue
        metric = _METRIC.fullmatch(path)
        if metric and parameter and condition["Type"] in _WORDS:
            yield metric[1], _WORDS[condition["Type"]], parameter.removeprefix("Parameters.")
