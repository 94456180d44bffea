"""Alarms for scheduled starts that were not delivered, and for schedules that gave no sign."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from shoal.constructs.monitoring.alarm import Alarm, metric
from shoal.constructs.monitoring.alarms import Alarms, waiting
from shoal.constructs.schedules.schedules import PURPOSE
from shoal.constructs.teardown.sweeper import NAMESPACE
from shoal.settings.names import Names
from shoal.settings.sections.schedules import MAX_ALARM_HOURS, Schedule, silent_hours


class ScheduleAlarms(Construct):
    """See docs/decisions/schedules.md for what rings, and for what cannot."""

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, alarms: Alarms
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        undelivered = Alarm(
            self,
            "Undelivered",
            names=names,
            purpose="schedule-undelivered",
            description=(
                f"A schedule could not start {names.pipeline}. The message in the dead-letter"
                " queue says why."
            ),
            metric=waiting(names.dead_letters(PURPOSE)),
        )
        alarms.add("schedule-undelivered", undelivered)
        for schedule in names.environment.schedules:
            if hours := silent_hours(schedule):
                alarms.add(names.missed_schedule(schedule.name), self._missed(schedule, hours))

    def _missed(self, schedule: Schedule, hours: int) -> Alarm:
        """Return an alarm that rings when no start was delivered for longer than the schedule's
        times are apart.

        For a rare schedule the sweeper measures that. Either way missing values ring: without one
        nobody knows that the schedule is on time.
        """
        ours = {"Pipeline": self._names.pipeline, "Schedule": schedule.name}
        is_rare = hours > MAX_ALARM_HOURS
        return Alarm(
            self,
            f"Missed-{schedule.name}",
            names=self._names,
            purpose=self._names.missed_schedule(schedule.name),
            description=(
                f"The schedule {schedule.name} of {self._names.pipeline} has given no sign for"
                f" {hours} hours{', is gone, or nobody looks' if is_rare else ''}."
            ),
            rings_without_values=True,
            enabled=not schedule.paused,
            **(_overdue(ours) if is_rare else _silent(ours, hours)),
        )


def _overdue(schedule: dict[str, str]) -> dict[str, Any]:
    """Ring when the sweeper found the schedule overdue in the last three hours.

    There is no value for a schedule that is paused.
    """
    maximum = cloudwatch.Stats.MAXIMUM
    return {"metric": metric(NAMESPACE, "ScheduleOverdue", schedule, maximum, minutes=180)}


def _silent(schedule: dict[str, str], hours: int) -> dict[str, Any]:
    """Ring without a delivery for so long, whether one starts something or not: a start that was
    skipped because an execution ran has not been missed.
    """
    count = cloudwatch.Stats.SAMPLE_COUNT
    return {
        "metric": metric(NAMESPACE, "ScheduledStarts", schedule, count, minutes=60),
        "periods": hours,
        "comparison": cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
    }
