"""Starts an execution of the pipeline when a schedule is due or a manifest arrives, unless one
runs: no two use the same GPUs at once.

EventBridge Scheduler sends `schedule`, `schedule_arn`, `scheduled_time` and `parameters` (name ->
text); S3 sends its event `Object Created` of a manifest. The answer is `status` (started, overlap
or duplicate) and the `execution` that was started or is in the way. Safe to run twice for the same
scheduled time, and for the same version of a manifest.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from dataclasses import asdict
from typing import Any

import boto3
import manifest
from botocore.config import Config
from start import Outcome, StartRequest, start

CLIENT = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)
"""By default one read that is never answered takes all of the function's minute."""

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one delivery.

    A refusal of AWS is raised: Lambda tries twice more, and the token keeps that from starting two.
    """
    request = (
        manifest.request_of(boto3.client("s3", config=CLIENT), event)
        if event.get("source") == "aws.s3"
        else of_schedule(event)
    )
    outcome = start(boto3.client("sagemaker", config=CLIENT), request)
    log.info("%s: %s", request.log_label, outcome)
    _publish(boto3.client("cloudwatch", config=CLIENT), request.origin, outcome)
    return asdict(outcome)


def of_schedule(event: dict[str, Any]) -> StartRequest:
    """Return what a schedule requests."""
    schedule, due = event["schedule"], event["scheduled_time"]
    return StartRequest(
        origin=schedule,
        token=hashlib.sha256(f"{event['schedule_arn']} {due}".encode()).hexdigest(),
        name=f"{schedule}-{re.sub('[^0-9A-Za-z]', '', due)}",
        description=f"Started by the schedule {schedule}, due at {due}",
        log_label=f"schedule {schedule}, due at {due}",
        parameters=event["parameters"],
    )


def _publish(cloudwatch: Any, origin: str, outcome: Outcome) -> None:
    """Publish all three metrics every time: the number of values of each is the number of
    deliveries.
    """
    names = {
        "ScheduledStarts": "started",
        "SkippedOverlap": "overlap",
        "SkippedDuplicate": "duplicate",
    }
    of = {"Pipeline": os.environ["PIPELINE_NAME"], "Schedule": origin}
    dimensions = [{"Name": name, "Value": value} for name, value in of.items()]
    counted = {"Unit": "Count", "Dimensions": dimensions}
    data = [
        {"MetricName": name, "Value": float(outcome.status == status), **counted}
        for name, status in names.items()
    ]
    cloudwatch.put_metric_data(Namespace="Shoal", MetricData=data)
