"""Finds what executions of one pipeline left behind for longer than their time to live, deletes it,
and measures what it found.

In: a schedule's event, or `{"dry_run": true}` from a person. Out: the report, a dictionary with
`kept`, `past_ttl`, `deleted` and `pending` (lists of kind/name or execution ids). It relies on no
event and no queue: it looks at what exists.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from deletion import CLIENT, is_running, status_of, tear_down
from tagged import MADE_UP, Made, find_named, find_tagged, listed, named_execution

# How long one execution's endpoint is waited for; the next sweep comes anyway.
_PATIENCE_S = 60.0
_SPARE_S = 15.0

log = logging.getLogger()
log.setLevel(logging.INFO)


@dataclass
class Report:
    """What a sweep found and did. Everything is JSON."""

    dry_run: bool
    kept: list[str] = field(default_factory=list)
    """Executions that are running, or younger than the time to live."""
    past_ttl: list[str] = field(default_factory=list)
    """Executions whose endpoint, configuration or model is older than the time to live."""
    deleted: list[str] = field(default_factory=list)
    """kind/name of what this sweep deleted."""
    pending: list[str] = field(default_factory=list)
    """Executions of which something could not be deleted yet."""
    complete: bool = True
    """Whether everything was looked at; not where tags could not be read."""
    endpoints: int = 0
    """Endpoints of this pipeline that exist, whatever their age."""
    endpoints_past_ttl: int = 0


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Sweep once."""
    deadline = time.monotonic() + float(context.get_remaining_time_in_millis()) / 1000 - _SPARE_S
    report = sweep(
        boto3.client("sagemaker", config=CLIENT), deadline, dry_run=event.get("dry_run") is True
    )
    log.info("%s", report)
    _publish(boto3.client("cloudwatch"), report)
    if not report.complete and "dry_run" not in event:
        raise RuntimeError(
            "tags could not be read, and no person is there to be told: see above"
        )  # an alarm watches failures
    return vars(report)


def sweep(sagemaker: Any, deadline: float, *, dry_run: bool) -> Report:
    """Look at every execution that something is named after.

    `deadline` is a time.monotonic() value.
    """
    report = Report(dry_run)
    limit = datetime.now(UTC).timestamp() - 60 * float(os.environ["TTL_MINUTES"])
    tagged = _tagged(sagemaker, report)
    for execution_id, (created_at, endpoints) in sorted(_found(sagemaker, tagged).items()):
        report.endpoints += endpoints
        past = created_at < limit
        report.endpoints_past_ttl += endpoints if past else 0
        if not past or is_running(sagemaker, _arn(execution_id)):
            report.kept.append(execution_id)
            continue
        report.past_ttl.append(execution_id)
        if not dry_run:
            _remove(sagemaker, execution_id, tagged, deadline, report)
    return report


def _remove(
    sagemaker: Any, execution_id: str, tagged: list[Made], deadline: float, report: Report
) -> None:
    try:
        finished, deleted = tear_down(
            sagemaker, _arn(execution_id), min(deadline, time.monotonic() + _PATIENCE_S), tagged
        )
    except (ClientError, BotoCoreError):
        # One execution that cannot be removed must not keep the others; its age keeps the alarm
        # ringing.
        log.exception("%s", execution_id)
        finished, deleted = False, []
    report.deleted += deleted
    if not finished:
        report.pending.append(execution_id)


def _tagged(sagemaker: Any, report: Report) -> list[Made]:
    """Read once a sweep.

    What cannot be read keeps nothing from being swept that names attribute.
    """
    found: list[Made] = []
    try:
        found.extend(find_tagged(sagemaker))
    except (ClientError, BotoCoreError):
        log.exception("tags")
        report.complete = False
    return found


def _found(sagemaker: Any, tagged: list[Made]) -> dict[str, tuple[float, int]]:
    """Execution id -> (when the oldest thing of it was created, as a timestamp; how many of them
    are endpoints).
    """
    found: dict[str, tuple[float, int]] = {}
    for made in (*find_named(sagemaker), *tagged):
        _count(made, found)
    for made in _made_up(sagemaker):
        if _is_ours(sagemaker, made.execution_id, found):
            _count(made, found)
    return found


def _count(made: Made, found: dict[str, tuple[float, int]]) -> None:
    oldest, endpoints = found.get(made.execution_id, (float("inf"), 0))
    found[made.execution_id] = (
        min(oldest, made.created_at.timestamp()),
        endpoints + (made.kind == "Endpoint"),
    )


def _made_up(sagemaker: Any) -> Iterator[Made]:
    """Models whose names SageMaker made up, of whichever pipeline's executions."""
    for item in listed(sagemaker, "list_models", "Model", f"{MADE_UP}-"):
        execution_id = named_execution(MADE_UP, item["ModelName"])
        if execution_id is not None:
            yield Made("Model", item["ModelName"], execution_id, item["CreationTime"])


def _is_ours(sagemaker: Any, execution_id: str, found: dict[str, tuple[float, int]]) -> bool:
    """Whether a model that SageMaker named after an execution belongs to this pipeline: other
    pipelines have such models, too.
    """
    return execution_id in found or status_of(sagemaker, _arn(execution_id)) is not None


def _arn(execution_id: str) -> str:
    return f"{os.environ['PIPELINE_ARN']}/execution/{execution_id}"


def _publish(cloudwatch: Any, report: Report) -> None:
    values = {
        "Sweeps": 1,
        "Endpoints": report.endpoints,
        "EndpointsPastTtl": report.endpoints_past_ttl,
        "Unremoved": len(report.pending) + (not report.complete),
    }
    dimensions = [{"Name": "Pipeline", "Value": os.environ["PIPELINE_NAME"]}]
    data = [
        {"MetricName": name, "Value": value, "Unit": "Count", "Dimensions": dimensions}
        for name, value in values.items()
    ]
    cloudwatch.put_metric_data(Namespace="Shoal", MetricData=data)
