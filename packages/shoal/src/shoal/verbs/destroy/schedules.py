"""An environment's live schedules: list them, pause and resume them.

Pausing changes the live schedule only, so `LiveSchedule.differs` compares it with the environment
file.
"""

from dataclasses import dataclass
from typing import Any

from shoal.aws.target import Target, items
from shoal.errors import NotFoundError
from shoal.settings.names import Names

_DISABLED = "DISABLED"


@dataclass(frozen=True)
class LiveSchedule:
    """One deployed schedule."""

    name: str
    pipeline: str
    """Name of the one that it starts."""
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
        self._client, self._cloudwatch = target.client("scheduler"), target.client("cloudwatch")

    def all(self) -> list[LiveSchedule]:
        """Return all deployed schedules, by name."""
        return [self._live(name) for name in self.deployed()]

    def set_paused(self, name: str, paused: bool) -> LiveSchedule:
        """Pause or resume a schedule, and its alarm, which would ring for the silence.

        Raises NotFoundError.
        """
        deployed = self.deployed()
        if name not in deployed:
            raise NotFoundError(
                f"there is no schedule {name!r} in {self._target.description}; deployed are:"
                f" {', '.join(deployed) or 'none'}"
            )
        # It replaces: what is left out gets its default (API reference).
        known = self._client.meta.service_model.operation_model("UpdateSchedule").input_shape
        schedule = self._get(name) | {"State": _DISABLED if paused else "ENABLED"}
        settings = {key: value for key, value in schedule.items() if key in known.members}
        self._client.update_schedule(**settings)
        if self._rings(name) is not None:
            cloudwatch = self._cloudwatch
            switch = cloudwatch.disable_alarm_actions if paused else cloudwatch.enable_alarm_actions
            switch(AlarmNames=[self._alarm(name)])
        return self._live(name)

    def _rings(self, name: str) -> bool | None:
        """Return whether the schedule's alarm notifies, or None if it has none."""
        answer = self._cloudwatch.describe_alarms(AlarmNames=[self._alarm(name)])
        alarms = answer["MetricAlarms"]
        return bool(alarms[0]["ActionsEnabled"]) if alarms else None

    def _alarm(self, name: str) -> str:
        return self._names.alarm(self._names.missed_schedule(name))

    def deployed(self) -> list[str]:
        """Return the names of all deployed schedules."""
        group = self._names.schedule_group
        listed = items(self._client, "list_schedules", GroupName=group)
        try:
            return sorted(schedule["Name"] for schedule in listed)
        except self._client.exceptions.ResourceNotFoundException:
            return []

    def _get(self, name: str) -> dict[str, Any]:
        return dict(self._client.get_schedule(GroupName=self._names.schedule_group, Name=name))

    def _live(self, name: str) -> LiveSchedule:
        schedule, in_file = self._get(name), self._names.environment.schedules
        return LiveSchedule(
            name,
            self._names.pipeline,
            schedule["ScheduleExpression"],
            schedule.get("ScheduleExpressionTimezone", "UTC"),
            schedule["State"] == _DISABLED,
            next((each.paused for each in in_file if each.name == name), None),
            self._rings(name),
        )
