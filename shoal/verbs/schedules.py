"""The schedules of an environment as they are live: what is deployed comes out, and a state (paused
or not) goes in.

Pausing changes the live schedule only. The environment file still says what it said, so
`Live.differs` tells where the two part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from config.names import Names
from shoal.verbs.errors import NotFoundError
from shoal.verbs.target import Target

_ENABLED, _DISABLED = "ENABLED", "DISABLED"
# UpdateSchedule replaces: what is left out gets its default (API reference).
_KEPT = (
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
class Live:
    """One deployed schedule."""

    name: str
    expression: str
    time_zone: str
    paused: bool
    paused_in_file: bool | None
    """None: the environment file has no such schedule."""
    rings: bool | None
    """Whether its alarm tells anybody; None: it has none, because its years are named, or it is too
    rare.
    """

    @property
    def differs(self) -> bool:
        return self.paused != self.paused_in_file

    @property
    def is_silent(self) -> bool:
        """Whether it starts executions while its alarm tells nobody: a deployment that changed a
        paused schedule leaves it so.
        """
        return not self.paused and self.rings is False


class Schedules:
    """The schedules of one environment at one target."""

    def __init__(self, target: Target, names: Names) -> None:
        self._target, self._names = target, names
        self._client = target.client("scheduler")

    def all(self) -> list[Live]:
        """By name; none when none is deployed."""
        return [self._live(self._get(name)) for name in self._deployed()]

    def set_paused(self, name: str, paused: bool) -> Live:
        """Pause or resume it, and its alarm, which would ring for the silence.

        Raises NotFoundError.
        """
        known = self._deployed()
        if name not in known:
            raise NotFoundError(
                f"there is no schedule {name!r} in {self._target.description}; deployed are:"
                f" {', '.join(known) or 'none'}"
            )
        found = self._get(name)
        kept = {key: found[key] for key in _KEPT if key in found}
        self._client.update_schedule(**kept, State=_DISABLED if paused else _ENABLED)
        self._listen(name, not paused)
        return self._live(self._get(name))

    def _listen(self, name: str, on: bool) -> None:
        """Where there is an alarm: none waits for the signs of a schedule that names its years."""
        cloudwatch = self._target.client("cloudwatch")
        change = cloudwatch.enable_alarm_actions if on else cloudwatch.disable_alarm_actions
        if self._rings(name) is not None:
            change(AlarmNames=[self._alarm(name)])

    def _rings(self, name: str) -> bool | None:
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

    def _live(self, found: dict[str, Any]) -> Live:
        in_file = {schedule.name: schedule.paused for schedule in self._names.environment.schedules}
        return Live(
            found["Name"],
            found["ScheduleExpression"],
            found.get("ScheduleExpressionTimezone", "UTC"),
            found["State"] == _DISABLED,
            in_file.get(found["Name"]),
            self._rings(found["Name"]),
        )
