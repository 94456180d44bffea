"""An environment's live schedules: list them, pause and resume them.

Pausing changes the live schedule only, so `LiveSchedule.differs` compares it with the environment
file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shoal.aws.target import Target
from shoal.errors import NotFoundError
from shoal.settings.names import Names

_ENABLED, _DISABLED = "ENABLED", "DISABLED"
# UpdateSchedule replaces: what is left out gets its default (API reference).
_SETTINGS = (
    "ActionAfterCompletion",
    "Description",
    "EndDate",
    "FlexibleTimeWindow",
    "GroupName",
    "KmsKeyArn",
    "Name",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "Target",
)


@dataclass(frozen=True)
class LiveSchedule:
    """One deployed schedule."""

    name: str
    expression: str
    time_zone: str
    paused: bool
    paused_in_file: bool | None
    """None: the environment file has no such schedule."""
    rings: bool | None
    """Whether its alarm notifies.

    None: it has no alarm, because it names its years or is too rare.
    """

    @property
    def differs(self) -> bool:
        return self.paused != self.paused_in_file

    @property
    def is_silent(self) -> bool:
        """Return whether it starts executions while its alarm notifies nobody.

        A deployment that changed a paused schedule leaves it so.
        """
        return not self.paused and self.rings is False


class Schedules:
    """The schedules of one environment at one target."""

    def __init__(self, target: Target, names: Names) -> None:
        self._target, self._names = target, names
        self._client = target.client("scheduler")

    def all(self) -> list[LiveSchedule]:
        """Return all deployed schedules, by name."""
        return [self._live(self._get(name)) for name in self._deployed()]

    def set_paused(self, name: str, paused: bool) -> LiveSchedule:
        """Pause or resume a schedule, and its alarm, which would ring for the silence.

        Raises NotFoundError.
        """
        deployed = self._deployed()
        if name not in deployed:
            raise NotFoundError(
                f"there is no schedule {name!r} in {self._target.description}; deployed are:"
                f" {', '.join(deployed) or 'none'}"
            )
        schedule = self._get(name)
        settings = {key: schedule[key] for key in _SETTINGS if key in schedule}
        self._client.update_schedule(**settings, State=_DISABLED if paused else _ENABLED)
        self._set_alarm_enabled(name, not paused)
        return self._live(self._get(name))

    def _set_alarm_enabled(self, name: str, enabled: bool) -> None:
        """Switch the actions of the schedule's alarm, if it has one.

        A schedule that names its years has none.
        """
        cloudwatch = self._target.client("cloudwatch")
        switch = cloudwatch.enable_alarm_actions if enabled else cloudwatch.disable_alarm_actions
        if self._is_alarm_enabled(name) is not None:
            switch(AlarmNames=[self._alarm(name)])

    def _is_alarm_enabled(self, name: str) -> bool | None:
        alarms = self._target.client("cloudwatch").describe_alarms(AlarmNames=[self._alarm(name)])[
            "MetricAlarms"
        ]
        return bool(alarms[0]["ActionsEnabled"]) if alarms else None

    def _alarm(self, name: str) -> str:
        return self._names.alarm(self._names.missed_schedule(name))

    def _deployed(self) -> list[str]:
        return sorted(self._names_in_group())

    def _names_in_group(self) -> Iterator[str]:
        pages = self._client.get_paginator("list_schedules").paginate(
            GroupName=self._names.schedule_group
        )
        try:
            for page in pages:
                yield from (schedule["Name"] for schedule in page["Schedules"])
        except self._client.exceptions.ResourceNotFoundException:
            return

    def _get(self, name: str) -> dict[str, Any]:
        return dict(self._client.get_schedule(GroupName=self._names.schedule_group, Name=name))

    def _live(self, description: dict[str, Any]) -> LiveSchedule:
        in_file = {schedule.name: schedule.paused for schedule in self._names.environment.schedules}
        return LiveSchedule(
            description["Name"],
            description["ScheduleExpression"],
            description.get("ScheduleExpressionTimezone", "UTC"),
            description["State"] == _DISABLED,
            in_file.get(description["Name"]),
            self._is_alarm_enabled(description["Name"]),
        )
