"""A schedule, and when it is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from shoal_local.control.scheduler.expressions import Cron, ExpressionError, Rate, parse
from shoal_local.errors import AwsError

# Settings that would be kept and not honoured.
UNSUPPORTED = ("StartDate", "EndDate", "KmsKeyArn", "ActionAfterCompletion")
SUPPORTED = (
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "FlexibleTimeWindow",
    "Target",
    "State",
    "Description",
)
DEFAULT_RETRIES = {"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}


@dataclass(frozen=True)
class Schedule:
    """One version of a schedule; `document` is GetSchedule's answer.

    `since` and `due_at` are times of the schedules' clock, which may be faster than the machine's.
    """

    document: Mapping[str, Any]
    times: Rate | Cron
    since: datetime
    due_at: datetime | None

    @property
    def arn(self) -> str:
        return str(self.document["Arn"])

    @property
    def group(self) -> str:
        return str(self.document["GroupName"])

    @property
    def group_arn(self) -> str:
        """Return the source ARN with which Scheduler assumes the schedule's role."""
        return self.arn.rpartition("/")[0].replace(":schedule/", ":schedule-group/")

    @property
    def target(self) -> Mapping[str, Any]:
        return dict(self.document["Target"])

    @property
    def summary(self) -> dict[str, Any]:
        """Return the entry of ListSchedules."""
        names = ("Arn", "GroupName", "Name", "State", "CreationDate", "LastModificationDate")
        arn = {"Arn": self.target["Arn"]}
        return {**{name: self.document[name] for name in names}, "Target": arn}

    def fired(self, now: datetime) -> Schedule:
        """Return the schedule with its next time; times that have passed meanwhile are skipped."""
        return replace(self, due_at=self.times.next(self.since, now))

    def changed(self, request: Mapping[str, Any], now: datetime) -> Schedule:
        """Return the schedule with other settings. What the request leaves out gets its default
        (API reference, UpdateSchedule), and a rate still counts from the creation.
        """
        names = ("Arn", "GroupName", "Name", "CreationDate")
        kept = {name: self.document[name] for name in names}
        document = {**kept, **settings_of(request), "LastModificationDate": datetime.now(UTC)}
        return replace(self, document=document, times=times_of(request)).fired(now)


def new_schedule(arn: str, group: str, request: Mapping[str, Any], now: datetime) -> Schedule:
    """Return a schedule whose rate is due at once."""
    identity = {"Arn": arn, "GroupName": group, "Name": request["Name"]}
    document = {**identity, "CreationDate": datetime.now(UTC)}
    draft = Schedule(document, times_of(request), now, None)
    return draft.changed(request, now - datetime.resolution)


def settings_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a request with defaults; raise AwsError for one that is not
    emulated.
    """
    for name in UNSUPPORTED:
        if request.get(name) is not None:
            raise AwsError("ValidationException", f"Shoal's emulator has no schedules with {name}")
    target = {"RetryPolicy": DEFAULT_RETRIES, **request["Target"]}
    settings = {name: request[name] for name in SUPPORTED if request.get(name) is not None}
    return {"State": "ENABLED", "ScheduleExpressionTimezone": "UTC", **settings, "Target": target}


def times_of(request: Mapping[str, Any]) -> Rate | Cron:
    time_zone = request.get("ScheduleExpressionTimezone") or "UTC"
    try:
        return parse(request["ScheduleExpression"], time_zone)
    except ExpressionError as error:
        raise AwsError("ValidationException", str(error)) from error
