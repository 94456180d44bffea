"""Measures which schedules are overdue, of those that are rarer than a CloudWatch alarm can look
back. Their alarms watch what it publishes.

A rule calls it with `time`, the moment to look from (now, if it is missing). It returns schedule ->
1 or 0 and publishes the same as ScheduleOverdue, without paused schedules. It changes nothing, and
may run twice.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3

_NAMESPACE = "Shoal"
_PERIOD_S = 3600
"""CloudWatch keeps values of an hour for 455 days, of a minute for 15 (API reference,
GetMetricData).
"""

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Look once. A refusal of AWS is raised: an alarm that gets no value rings, too."""
    now = datetime.fromisoformat(event["time"]) if "time" in event else datetime.now(UTC)
    limits = {
        name: now - timedelta(hours=hours)
        for name, hours in json.loads(os.environ["SILENT_HOURS"]).items()
    }
    cloudwatch = boto3.client("cloudwatch")
    signs = _last_signs(cloudwatch, limits, now)
    overdue = _overdue(boto3.client("scheduler"), limits, signs)
    log.info("overdue: %s; last signs: %s", overdue, {name: str(at) for name, at in signs.items()})
    _publish(cloudwatch, overdue)
    return overdue


def _overdue(
    scheduler: Any, limits: dict[str, datetime], signs: dict[str, datetime]
) -> dict[str, int]:
    """Return 1 for each schedule that is overdue, 0 for others.

    A schedule that does not exist is overdue at once. One that was created, changed or resumed
    after its limit has had no time to be.
    """
    overdue = {}
    for name, limit in limits.items():
        live = _live(scheduler, name)
        if live is None:
            overdue[name] = 1
        elif live["State"] == "ENABLED":
            since = max(live["CreationDate"], live["LastModificationDate"], signs.get(name, limit))
            overdue[name] = int(since <= limit)
    return overdue


def _live(scheduler: Any, name: str) -> dict[str, Any] | None:
    try:
        schedule: dict[str, Any] = scheduler.get_schedule(
            GroupName=os.environ["SCHEDULE_GROUP"], Name=name
        )
    except scheduler.exceptions.ResourceNotFoundException:
        return None
    return schedule


def _last_signs(cloudwatch: Any, limits: dict[str, datetime], now: datetime) -> dict[str, datetime]:
    """Return, by schedule, the beginning of the last hour in which the function `start` was called
    for it, whether that started something or not.
    """
    names = list(limits)
    queries = [
        {"Id": f"s{index}", "MetricStat": _deliveries(name)} for index, name in enumerate(names)
    ]
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries, StartTime=min(limits.values()), EndTime=now
    )
    signs: dict[str, datetime] = {}
    for result in (
        each for page in pages for each in page["MetricDataResults"] if each["Timestamps"]
    ):
        name = names[int(result["Id"][1:])]
        signs[name] = max(*result["Timestamps"], signs.get(name, limits[name]))
    return signs


def _deliveries(name: str) -> dict[str, Any]:
    metric = {
        "Namespace": _NAMESPACE,
        "MetricName": "ScheduledStarts",
        "Dimensions": _dimensions(name),
    }
    return {"Metric": metric, "Period": _PERIOD_S, "Stat": "SampleCount"}


def _publish(cloudwatch: Any, overdue: dict[str, int]) -> None:
    data = [
        {
            "MetricName": "ScheduleOverdue",
            "Value": value,
            "Unit": "Count",
            "Dimensions": _dimensions(name),
        }
        for name, value in overdue.items()
    ]
    if data:
        cloudwatch.put_metric_data(Namespace=_NAMESPACE, MetricData=data)


def _dimensions(schedule: str) -> list[dict[str, str]]:
    return [
        {"Name": "Pipeline", "Value": os.environ["PIPELINE_NAME"]},
        {"Name": "Schedule", "Value": schedule},
    ]
