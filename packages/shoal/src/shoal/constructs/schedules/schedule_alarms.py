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
        statistics, is_rare = cloudwatch.Stats, hours > MAX_ALARM_HOURS
        if is_rare:
            # The sweeper found it overdue in the last three hours. A paused one has no value.
            late = metric(NAMESPACE, "ScheduleOverdue", ours, statistics.MAXIMUM, minutes=180)
            options: dict[str, Any] = {"metric": late}
        else:
            # No delivery for so long, whether one starts something or not: a start that was skipped
            # because an execution ran has not been missed.
            count = statistics.SAMPLE_COUNT
            options = {
                "metric": metric(NAMESPACE, "ScheduledStarts", ours, count, minutes=60),
                "periods": hours,
                "comparison": cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            }
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
            **options,
        )
