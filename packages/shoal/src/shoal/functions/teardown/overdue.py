"""Measures which schedules are overdue, of those that are rarer than a CloudWatch alarm can look
back. Their alarms watch what it publishes. It changes nothing.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import datetime, timedelta
from typing import Any

import boto3

_NAMESPACE = "Shoal"
_PERIOD_S = 3600
"""CloudWatch keeps values of an hour for 455 days, of a minute for 15 (API reference,
GetMetricData).
"""

log = logging.getLogger()


def measure_overdue(now: datetime) -> dict[str, int]:
    """Return 1 for each schedule that is overdue, 0 for others, and publish the same as
    ScheduleOverdue. Paused schedules are in neither.

    A schedule that does not exist is overdue at once. One that was created, changed or resumed
    after its limit has had no time to be. A refusal of AWS is raised: an alarm that gets no value
    rings, too.
    """
    silent_hours = json.loads(os.environ.get("SILENT_HOURS", "{}"))
    if not silent_hours:
        return {}
    limits = {name: now - timedelta(hours=hours) for name, hours in silent_hours.items()}
    cloudwatch, scheduler = boto3.client("cloudwatch"), boto3.client("scheduler")
    signs, overdue = _last_signs(cloudwatch, limits, now), {}
    for name, limit in limits.items():
        try:
            live = scheduler.get_schedule(GroupName=os.environ["SCHEDULE_GROUP"], Name=name)
        except scheduler.exceptions.ResourceNotFoundException:
            overdue[name] = 1
            continue
        if live["State"] == "ENABLED":
            since = max(live["CreationDate"], live["LastModificationDate"], signs.get(name, limit))
            overdue[name] = int(since <= limit)
    log.info("overdue: %s; last signs: %s", overdue, {name: str(at) for name, at in signs.items()})
    data = [
        {"MetricName": "ScheduleOverdue", "Value": value, "Unit": "Count", **_dimensions(name)}
        for name, value in overdue.items()
    ]
    if data:
        cloudwatch.put_metric_data(Namespace=_NAMESPACE, MetricData=data)
    return overdue


def _last_signs(cloudwatch: Any, limits: dict[str, datetime], now: datetime) -> dict[str, datetime]:
    """Return, by schedule, the beginning of the last hour in which the function `start` was called
    for it, whether that started something or not.
    """
    names = list(limits)
    queries = []
    for index, name in enumerate(names):
        metric = {"Namespace": _NAMESPACE, "MetricName": "ScheduledStarts", **_dimensions(name)}
        count = {"Metric": metric, "Period": _PERIOD_S, "Stat": "SampleCount"}
        queries.append({"Id": f"s{index}", "MetricStat": count})
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries, StartTime=min(limits.values()), EndTime=now
    )
    signs: dict[str, datetime] = {}
    for result in (each for page in pages for each in page["MetricDataResults"]):
        name = names[int(result["Id"][1:])]
        if result["Timestamps"]:
            signs[name] = max(*result["Timestamps"], signs.get(name, limits[name]))
    return signs


def _dimensions(schedule: str) -> dict[str, list[dict[str, str]]]:
    pipeline = {"Name": "Pipeline", "Value": os.environ["PIPELINE_NAME"]}
    return {"Dimensions": [pipeline, {"Name": "Schedule", "Value": schedule}]}
