"""Schedules and their groups, and when each schedule is due."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from shoal_local.control.scheduler.expressions import Cron, ExpressionError, Rate, parse
from shoal_local.errors import AwsError

DEFAULT = "default"
ENABLED = "ENABLED"
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
class Group:
    """A schedule group."""

    name: str
    arn: str
    created_at: datetime
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Schedule:
    """One version of a schedule.

    `since` and `due_at` are times of the schedules' clock, which may be faster than the machine's.
    """

    arn: str
    group: str
    name: str
    settings: Mapping[str, Any]
    times: Rate | Cron
    since: datetime
    due_at: datetime | None
    created_at: datetime
    modified_at: datetime

    @property
    def group_arn(self) -> str:
        """Return the source ARN with which Scheduler assumes the schedule's role."""
        return self.arn.replace(":schedule/", ":schedule-group/").removesuffix(f"/{self.name}")

    @property
    def is_enabled(self) -> bool:
        return bool(self.settings["State"] == ENABLED)

    def fired(self, now: datetime) -> Schedule:
        """Return the schedule with its next time; times that have passed meanwhile are skipped."""
        return replace(self, due_at=self.times.next(self.since, now))


@dataclass
class Store:
    """The account's schedules in this region. `now` is the schedules' clock."""

    account: str
    region: str
    now: Callable[[], datetime]
    _groups: dict[str, Group] = field(default_factory=dict)
    _schedules: dict[tuple[str, str], Schedule] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.create_group(DEFAULT, {})

    def arn(self, kind: str, name: str) -> str:
        return f"arn:aws:scheduler:{self.region}:{self.account}:{kind}/{name}"

    def create_group(self, name: str, tags: Mapping[str, str]) -> Group:
        with self._lock:
            if name in self._groups:
                raise AwsError("ConflictException", f"Schedule group {name} already exists.", 409)
            self._groups[name] = Group(
                name, self.arn("schedule-group", name), datetime.now(UTC), tags
            )
            return self._groups[name]

    def group(self, name: str) -> Group:
        if name not in self._groups:
            raise AwsError(
                "ResourceNotFoundException", f"Schedule group {name} does not exist.", 404
            )
        return self._groups[name]

    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def retag(self, group: Group, tags: Mapping[str, str]) -> None:
        with self._lock:
            self._groups[group.name] = replace(group, tags=tags)

    def delete_group(self, name: str) -> None:
        """Delete a group with its schedules, at once; AWS takes a while."""
        with self._lock:
            if self.group(name).name == DEFAULT:
                raise AwsError(
                    "ValidationException", "The default schedule group cannot be deleted."
                )
            del self._groups[name]
            self._schedules = {
                key: schedule for key, schedule in self._schedules.items() if schedule.group != name
            }

    def create(self, request: Mapping[str, Any]) -> Schedule:
        with self._lock:
            group, name = self.group(request.get("GroupName") or DEFAULT).name, request["Name"]
            if (group, name) in self._schedules:
                raise AwsError("ConflictException", f"Schedule {name} already exists.", 409)
            settings, times, now = settings_of(request), times_of(request), self.now()
            instant = datetime.now(UTC)
            due_at = times.next(now, now - _INSTANT)
            self._schedules[group, name] = Schedule(
                self.arn("schedule", f"{group}/{name}"),
                group,
                name,
                settings,
                times,
                now,
                due_at,
                instant,
                instant,
            )
            return self._schedules[group, name]

    def update(self, request: Mapping[str, Any]) -> Schedule:
        """Change a schedule. What the request leaves out gets its default (API reference,
        UpdateSchedule).

        A rate still counts from the creation.
        """
        with self._lock:
            schedule = self.get(request.get("GroupName"), request["Name"])
            settings, times = settings_of(request), times_of(request)
            changed = replace(
                schedule, settings=settings, times=times, modified_at=datetime.now(UTC)
            ).fired(self.now())
            self._schedules[schedule.group, schedule.name] = changed
            return changed

    def get(self, group: str | None, name: str) -> Schedule:
        schedule = self._schedules.get((self.group(group or DEFAULT).name, name))
        if schedule is None:
            raise AwsError("ResourceNotFoundException", f"Schedule {name} does not exist.", 404)
        return schedule

    def delete(self, group: str | None, name: str) -> None:
        with self._lock:
            schedule = self.get(group, name)
            del self._schedules[schedule.group, schedule.name]

    def all(self) -> list[Schedule]:
        return sorted(self._schedules.values(), key=lambda schedule: schedule.arn)

    def take_due(self) -> list[Schedule]:
        """Return the enabled schedules that are due, as they were, and let each wait for its next
        time.

        A disabled schedule skips its times.
        """
        with self._lock:
            now = self.now()
            due = [
                schedule
                for schedule in self._schedules.values()
                if schedule.due_at and schedule.due_at <= now
            ]
            for schedule in due:
                self._schedules[schedule.group, schedule.name] = schedule.fired(now)
            return [schedule for schedule in due if schedule.is_enabled]


_INSTANT = datetime.resolution


def settings_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a request with defaults; raise AwsError for one that is not
    emulated.
    """
    for name in UNSUPPORTED:
        if request.get(name) is not None:
            raise AwsError("ValidationException", f"Shoal's emulator has no schedules with {name}")
    target = {"RetryPolicy": DEFAULT_RETRIES, **request["Target"]}
    settings = {name: request[name] for name in SUPPORTED if request.get(name) is not None}
    return {"State": ENABLED, "ScheduleExpressionTimezone": "UTC", **settings, "Target": target}


def times_of(request: Mapping[str, Any]) -> Rate | Cron:
    try:
        return parse(
            request["ScheduleExpression"], request.get("ScheduleExpressionTimezone") or "UTC"
        )
    except ExpressionError as error:
        raise AwsError("ValidationException", str(error)) from error
