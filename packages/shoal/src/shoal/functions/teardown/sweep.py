"""Finds what executions of one pipeline left behind for longer than their time to live, deletes it,
and measures what it found, and which rare schedules are overdue.

A rule calls it with `time`, the moment to judge schedules by (now, if it is missing), or
`shoal destroy --leftovers` with `{"dry_run": true}` or `{"dry_run": false}`. It relies on no event
and no queue: it looks at what exists.
"""

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from attribution import NAMES, STEPS, Resource, Search, status_of
from botocore.exceptions import BotoCoreError, ClientError
from deletion import CLIENT, RUNNING, client_until, deadline_of, tear_down

# How long one execution's endpoint is waited for; the next sweep comes anyway.
_PATIENCE_S = 60.0
_MODELS_S = 2 * 24 * 3600.0
"""For how long models that SageMaker named are looked at after their time to live."""

_NAMESPACE = "Shoal"
_PERIOD_S = 3600
"""CloudWatch keeps values of an hour for 455 days, of a minute for 15 (API reference,
GetMetricData).
"""

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
    """Whether everything was looked at."""
    unread: list[str] = field(default_factory=list)
    """What could not be read: names, tags or both."""
    endpoints: int = 0
    """Endpoints of this pipeline that exist, whatever their age."""
    endpoints_past_ttl: int = 0
    overdue: dict[str, int] = field(default_factory=dict)
    """Rare schedule -> whether it is overdue; none that is paused."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Sweep once."""
    deadline, dry_run = deadline_of(context), event.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise ValueError(f"dry_run is {dry_run!r}, not true or false: nothing was deleted")  # noqa: TRY004 - of a request
    report = sweep(client_until(deadline), deadline, dry_run=dry_run)
    log.info("%s", report)
    _publish(boto3.client("cloudwatch", config=CLIENT), report)
    if "dry_run" in event:  # a person asks, who waits for the report
        return vars(report)
    # Last: whatever keeps it from looking at schedules, endpoints cost more.
    now = datetime.fromisoformat(event["time"]) if "time" in event else datetime.now(UTC)
    report.overdue = _measure_overdue(now)
    if not report.complete:
        # An alarm watches failures.
        raise RuntimeError(
            f"{' and '.join(report.unread)} could not be read, and no person is there to be told:"
            " see above"
        )
    return vars(report)


def sweep(sagemaker: Any, deadline: float, *, dry_run: bool) -> Report:
    """Look at every execution that something is named after; `deadline` is of time.monotonic()."""
    report = Report(dry_run)
    limit = datetime.now(UTC).timestamp() - 60 * float(os.environ["TTL_MINUTES"])
    search = Search(sagemaker, os.environ["PIPELINE_NAME"])
    tagged = search.by_tags()
    for execution_id, resources in _by_execution(sagemaker, search, tagged, limit):
        past_ttl = _oldest(resources) < limit
        status: str | None = RUNNING[0]  # if nobody can tell whether it runs
        with search.attempt(STEPS, f"execution {execution_id}"):
            status = status_of(sagemaker, _arn(execution_id))
        if status is None and not search.has_tagged(resources):
            log.info("%s is no execution, and nobody tagged what is called so", execution_id)
            continue
        endpoints = sum(resource.kind == "endpoint" for resource in resources)
        report.endpoints += endpoints
        report.endpoints_past_ttl += endpoints if past_ttl else 0
        if not past_ttl or status in RUNNING:
            report.kept.append(execution_id)
            continue
        report.past_ttl.append(execution_id)
        if not dry_run:
            _remove(sagemaker, execution_id, tagged, deadline, report)
    for failure in search.failures:
        log.error("%s", failure)
    report.unread = sorted({failure.search for failure in search.failures})
    report.complete = not search.failures
    search.raise_if_all_failed()
    return report


def _by_execution(
    sagemaker: Any, search: Search, tagged: dict[str, set[Resource]], limit: float
) -> Iterator[tuple[str, set[Resource]]]:
    """Yield what each execution left, by its id.

    Models and jobs that SageMaker named come last, because other pipelines have them, too, and each
    costs a call. An account may have thousands of models, which cost nothing else: those long past
    `limit`, a timestamp, were looked at before.
    """
    named, generated = search.by_names(), search.by_generated_names()
    known = {*named, *tagged}
    for execution_id in sorted(known):
        parts = (each.get(execution_id, set()) for each in (named, tagged, generated))
        yield execution_id, set[Resource]().union(*parts)
    recent = {
        each: models for each, models in generated.items() if _oldest(models) > limit - _MODELS_S
    }
    pools = search.by_warm_pools() if "WARM_POOLS" in os.environ else {}
    alone = {each: few for each, few in (pools | recent).items() if each not in known}
    for execution_id, several in sorted(alone.items()):
        is_ours = False
        with search.attempt(NAMES, f"execution {execution_id}"):
            is_ours = status_of(sagemaker, _arn(execution_id)) is not None
        if is_ours:
            yield execution_id, several


def _oldest(resources: set[Resource]) -> float:
    """Return when the oldest of them was created, as a timestamp."""
    return min(resource.created_at.timestamp() for resource in resources if resource.created_at)


def _remove(
    sagemaker: Any,
    execution_id: str,
    tagged: dict[str, set[Resource]],
    deadline: float,
    report: Report,
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
    cloudwatch.put_metric_data(Namespace=_NAMESPACE, MetricData=data)


def _measure_overdue(now: datetime) -> dict[str, int]:
    """Return 1 for each schedule that is overdue, 0 for others, and publish the same as
    ScheduleOverdue, which their alarms watch.

    They are the schedules that are rarer than a CloudWatch alarm can look back. Paused ones are in
    neither.

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
