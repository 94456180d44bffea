"""Starts an execution of the pipeline when a schedule is due, unless one runs: no two of them use the same GPUs at once.

In: what EventBridge Scheduler sends: `schedule`, `schedule_arn`, `scheduled_time`, `parameters` (name -> text). Out: `status` (started,
overlap or duplicate) and the `execution` that was started or is in the way. Safe to run twice for the same scheduled time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

import boto3

RUNNING = ("Executing", "Stopping")

log = logging.getLogger()
log.setLevel(logging.INFO)


@dataclass(frozen=True)
class Outcome:
    """What became of one delivery."""

    status: Literal["started", "overlap", "duplicate"]
    execution: str
    """ARN of the one that runs for it, or in its way."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one delivery. Whatever AWS refuses is raised: Lambda tries twice more, and the token keeps that from starting two."""
    outcome = start(boto3.client("sagemaker"), event)
    log.info("schedule %s, due at %s: %s", event["schedule"], event["scheduled_time"], _told(outcome))
    _publish(boto3.client("cloudwatch"), event["schedule"], outcome)
    return asdict(outcome)


def start(sagemaker: Any, event: dict[str, Any]) -> Outcome:
    """Start an execution, or say why not."""
    pipeline, name = os.environ["PIPELINE_NAME"], _display_name(event)
    known = _executions(sagemaker, pipeline)
    again = [each["PipelineExecutionArn"] for each in known if each.get("PipelineExecutionDisplayName") == name]
    if again:
        return Outcome("duplicate", again[0])
    running = _oldest_running(known)
    if running:
        return Outcome("overlap", running)
    answer = sagemaker.start_pipeline_execution(
        PipelineName=pipeline,
        PipelineExecutionDisplayName=name,
        PipelineExecutionDescription=f"Started by the schedule {event['schedule']}, due at {event['scheduled_time']}",
        PipelineParameters=[{"Name": key, "Value": value} for key, value in event["parameters"].items()],
        ClientRequestToken=token(event),
    )
    return _settled(sagemaker, pipeline, str(answer["PipelineExecutionArn"]))


def _settled(sagemaker: Any, pipeline: str, arn: str) -> Outcome:
    """Whoever else saw nothing running and started in the same moment sees both now: the older one goes on, the other is stopped."""
    oldest = _oldest_running(_executions(sagemaker, pipeline))
    if oldest is None or oldest == arn:
        return Outcome("started", arn)
    sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken=hashlib.sha256(arn.encode()).hexdigest())
    return Outcome("overlap", oldest)


def _oldest_running(executions: list[dict[str, Any]]) -> str | None:
    running = [each for each in executions if each["PipelineExecutionStatus"] in RUNNING]
    # The ARN decides between two of the same moment, so that both callers decide alike.
    oldest = min(running, key=lambda each: (each["StartTime"], each["PipelineExecutionArn"]), default=None)
    return str(oldest["PipelineExecutionArn"]) if oldest else None


def token(event: dict[str, Any]) -> str:
    """The same for every delivery of one scheduled time, and for no other."""
    return hashlib.sha256(f"{event['schedule_arn']} {event['scheduled_time']}".encode()).hexdigest()


def _executions(sagemaker: Any, pipeline: str) -> list[dict[str, Any]]:
    """Summaries of all executions: the API filters by time only, and one may run for weeks."""
    pages = sagemaker.get_paginator("list_pipeline_executions").paginate(PipelineName=pipeline, SortOrder="Descending")
    return [summary for page in pages for summary in page["PipelineExecutionSummaries"]]


def _display_name(event: dict[str, Any]) -> str:
    """`nightly-20261120T030000Z`: the API takes letters, digits and hyphens."""
    return f"{event['schedule']}-{re.sub('[^0-9A-Za-z]', '', event['scheduled_time'])}"


def _told(outcome: Outcome) -> str:
    return {
        "started": f"started {outcome.execution}",
        "overlap": f"started nothing, because {outcome.execution} runs",
        "duplicate": f"started nothing, because {outcome.execution} was started for this time already",
    }[outcome.status]


def _publish(cloudwatch: Any, schedule: str, outcome: Outcome) -> None:
    """All three every time, so that the number of values of any one is the number of deliveries."""
    names = {"ScheduledStarts": "started", "SkippedOverlap": "overlap", "SkippedDuplicate": "duplicate"}
    dimensions = [{"Name": "Pipeline", "Value": os.environ["PIPELINE_NAME"]}, {"Name": "Schedule", "Value": schedule}]
    data = [
        {"MetricName": name, "Value": float(outcome.status == status), "Unit": "Count", "Dimensions": dimensions}
        for name, status in names.items()
    ]
    cloudwatch.put_metric_data(Namespace="Shoal", MetricData=data)
