"""Starts an execution of the pipeline when a schedule is due or a manifest arrives, unless one
runs: no two use the same GPUs at once.

In: what EventBridge Scheduler sends (`schedule`, `schedule_arn`, `scheduled_time`, `parameters`:
name -> text), or S3's event `Object Created` of a manifest. Out: `status` (started, overlap or
duplicate) and the `execution` that was started or is in the way. Safe to run twice for the same
scheduled time, and for the same version of a manifest.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

import boto3
import manifest
from starting import Start

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
    """Answer one delivery.

    Whatever AWS refuses is raised: Lambda tries twice more, and the token keeps that from starting
    two.
    """
    wanted = (
        manifest.start_of(boto3.client("s3"), event)
        if event.get("source") == "aws.s3"
        else of_schedule(event)
    )
    outcome = start(boto3.client("sagemaker"), wanted)
    log.info("%s: %s", wanted.told, _told(outcome))
    _publish(boto3.client("cloudwatch"), wanted.origin, outcome)
    return asdict(outcome)


def of_schedule(event: dict[str, Any]) -> Start:
    """What a schedule asks for."""
    schedule, due = event["schedule"], event["scheduled_time"]
    return Start(
        origin=schedule,
        token=hashlib.sha256(f"{event['schedule_arn']} {due}".encode()).hexdigest(),
        name=f"{schedule}-{re.sub('[^0-9A-Za-z]', '', due)}",
        description=f"Started by the schedule {schedule}, due at {due}",
        told=f"schedule {schedule}, due at {due}",
        parameters=event["parameters"],
    )


def start(sagemaker: Any, wanted: Start) -> Outcome:
    """Start an execution, or say why not."""
    pipeline = os.environ["PIPELINE_NAME"]
    known = _executions(sagemaker, pipeline)
    again = [
        each["PipelineExecutionArn"]
        for each in known
        if each.get("PipelineExecutionDisplayName") == wanted.name
    ]
    if again:
        return Outcome("duplicate", again[0])
    running = _oldest_running(known)
    if running:
        return Outcome("overlap", running)
    answer = sagemaker.start_pipeline_execution(
        PipelineName=pipeline,
        PipelineExecutionDisplayName=wanted.name,
        PipelineExecutionDescription=wanted.description,
        PipelineParameters=[
            {"Name": key, "Value": value} for key, value in wanted.parameters.items()
        ],
        ClientRequestToken=wanted.token,
    )
    return _settled(sagemaker, pipeline, str(answer["PipelineExecutionArn"]))


def _settled(sagemaker: Any, pipeline: str, arn: str) -> Outcome:
    """Whoever else saw nothing running and started in the same moment sees both now: the older one
    goes on, the other is stopped.
    """
    oldest = _oldest_running(_executions(sagemaker, pipeline))
    if oldest is None or oldest == arn:
        return Outcome("started", arn)
    sagemaker.stop_pipeline_execution(
        PipelineExecutionArn=arn, ClientRequestToken=hashlib.sha256(arn.encode()).hexdigest()
    )
    return Outcome("overlap", oldest)


def _oldest_running(executions: list[dict[str, Any]]) -> str | None:
    running = [each for each in executions if each["PipelineExecutionStatus"] in RUNNING]
    # The ARN decides between two of the same moment, so that both callers decide alike.
    oldest = min(
        running, key=lambda each: (each["StartTime"], each["PipelineExecutionArn"]), default=None
    )
    return str(oldest["PipelineExecutionArn"]) if oldest else None


def _executions(sagemaker: Any, pipeline: str) -> list[dict[str, Any]]:
    """Summaries of all executions: the API filters by time only, and one may run for weeks."""
    pages = sagemaker.get_paginator("list_pipeline_executions").paginate(
        PipelineName=pipeline, SortOrder="Descending"
    )
    return [summary for page in pages for summary in page["PipelineExecutionSummaries"]]


def _told(outcome: Outcome) -> str:
    return {
        "started": f"started {outcome.execution}",
        "overlap": f"started nothing, because {outcome.execution} runs",
        "duplicate": f"started nothing, because {outcome.execution} was started for it already",
    }[outcome.status]


def _publish(cloudwatch: Any, origin: str, outcome: Outcome) -> None:
    """All three every time, so that the number of values of any one is the number of deliveries."""
    names = {
        "ScheduledStarts": "started",
        "SkippedOverlap": "overlap",
        "SkippedDuplicate": "duplicate",
    }
    dimensions = [
        {"Name": "Pipeline", "Value": os.environ["PIPELINE_NAME"]},
        {"Name": "Schedule", "Value": origin},
    ]
    data = [
        {
            "MetricName": name,
            "Value": float(outcome.status == status),
            "Unit": "Count",
            "Dimensions": dimensions,
        }
        for name, status in names.items()
    ]
    cloudwatch.put_metric_data(Namespace="Shoal", MetricData=data)
