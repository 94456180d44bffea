"""Alarms for scheduled starts that were not delivered, and for schedules that gave no sign."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from shoal.constructs.monitoring.alarm import Alarm
from shoal.constructs.monitoring.alarms import Alarms, waiting
from shoal.constructs.schedules.overdue_schedules import OverdueSchedules
from shoal.constructs.schedules.schedules import PURPOSE
from shoal.constructs.teardown.sweeper import NAMESPACE
from shoal.settings.names import Names
from shoal.settings.sections.schedules import MAX_ALARM_HOURS, Schedule, rare, silent_hours


class ScheduleAlarms(Construct):
    """See docs/decisions/schedules.md for what rings, and for what cannot."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        alarms: Alarms,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._overdue = self._watch_rare(alarms)
        alarms.add("schedule-undelivered", self._undelivered())
        for schedule in names.environment.schedules:
            if hours := silent_hours(schedule):
                alarms.add(names.missed_schedule(schedule.name), self._missed(schedule, hours))

    def _watch_rare(self, alarms: Alarms) -> OverdueSchedules | None:
        hours = rare(self._names.environment.schedules)
        if not hours:
            return None
        overdue = OverdueSchedules(self, "Overdue", names=self._names, silent_hours=hours)
        alarms.watch_functions([overdue.scheduled.purpose])
        return overdue

    def _undelivered(self) -> Alarm:
        return Alarm(
            self,
            "Undelivered",
            names=self._names,
            purpose="schedule-undelivered",
            description=(
                f"A schedule could not start {self._names.pipeline}. The message in the dead-letter"
                " queue says why."
            ),
            metric=waiting(self._names.dead_letters(PURPOSE)),
        )

    def _missed(self, schedule: Schedule, hours: int) -> Alarm:
        """Return an alarm that rings when no start was delivered for longer than the schedule's
        times are apart.

        For a rare schedule another function measures that. Either way missing values ring: without
        one nobody knows that the schedule is on time.
        """
        overdue = self._overdue if hours > MAX_ALARM_HOURS else None
        unseen = ", is gone, or nobody looks" if overdue else ""
        comparison = cloudwatch.ComparisonOperator
        return Alarm(
            self,
            f"Missed-{schedule.name}",
            names=self._names,
            purpose=self._names.missed_schedule(schedule.name),
            description=(
                f"The schedule {schedule.name} of {self._names.pipeline} has given no sign for"
                f" {hours} hours{unseen}."
            ),
            metric=overdue.metric(schedule.name) if overdue else self._signs(schedule),
            periods=1 if overdue else hours,
            comparison=(
                comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
                if overdue
                else comparison.LESS_THAN_THRESHOLD
            ),
            rings_without_values=True,
            enabled=not schedule.paused,
        )

    def _signs(self, schedule: Schedule) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name="ScheduledStarts",
            dimensions_map={"Pipeline": self._names.pipeline, "Schedule": schedule.name},
            # The number of deliveries, whether they started something or not: a start that was
            # skipped because an execution ran has not been missed.
            statistic=cloudwatch.Stats.SAMPLE_COUNT,
            period=cdk.Duration.hours(1),
        )
