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
    """Its ARN."""


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
    again = [arn for arn, (shown_as, _) in known.items() if shown_as == name]
    if again:
        return Outcome("duplicate", again[0])
    running = [arn for arn, (_, status) in known.items() if status in RUNNING]
    if running:
        return Outcome("overlap", running[0])
    answer = sagemaker.start_pipeline_execution(
        PipelineName=pipeline,
        PipelineExecutionDisplayName=name,
        PipelineExecutionDescription=f"Started by the schedule {event['schedule']}, due at {event['scheduled_time']}",
        PipelineParameters=[{"Name": key, "Value": value} for key, value in event["parameters"].items()],
        ClientRequestToken=token(event),
    )
    arn = str(answer["PipelineExecutionArn"])
    # Two deliveries that overtook each other: SageMaker knows the token, and answers with the execution of the first.
    return Outcome("duplicate" if arn in known else "started", arn)


def token(event: dict[str, Any]) -> str:
    """The same for every delivery of one scheduled time, and for no other."""
    return hashlib.sha256(f"{event['schedule_arn']} {event['scheduled_time']}".encode()).hexdigest()


def _executions(sagemaker: Any, pipeline: str) -> dict[str, tuple[str, str]]:
    """ARN -> display name and status, of all executions: the API filters by time only, and one may run for weeks."""
    pages = sagemaker.get_paginator("list_pipeline_executions").paginate(PipelineName=pipeline, SortOrder="Descending")
    found = (summary for page in pages for summary in page["PipelineExecutionSummaries"])
    return {each["PipelineExecutionArn"]: (each.get("PipelineExecutionDisplayName", ""), each["PipelineExecutionStatus"]) for each in found}


def _display_name(event: dict[str, Any]) -> str:
    """`nightly-20261120T030000Z`: the API takes letters, digits and hyphens."""
    return f"{event['schedule']}-{re.sub('[^0-9A-Za-z]', '', event['scheduled_time'])}"


def _told(outcome: Outcome) -> str:
    return {
        "started": f"started {outcome.execution}",
        "overlap": f"started nothing, because {outcome.execution} still runs",
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
