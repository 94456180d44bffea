"""An environment's schedules go in; alarms for starts that were not delivered, and for times at
which nothing came at all, come out.
"""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from config.names import Names
from config.schedules import MAX_ALARM_HOURS, Schedule, rare, silent_hours
from stacks.constructs.alarms import Alarms
from stacks.constructs.overdue_schedules import PURPOSE, OverdueSchedules
from stacks.constructs.schedules import Schedules
from stacks.constructs.sweeper import NAMESPACE

_AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD


class ScheduleAlarms(Construct):
    """What rings, and what cannot: docs/decisions/schedules.md."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        functions: Path,
        schedules: Schedules,
        alarms: Alarms,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._overdue = self._watch_rare_ones(functions, alarms)
        alarms.ring("schedule-undelivered", self._undelivered(schedules))
        for schedule in names.environment.schedules:
            if hours := silent_hours(schedule):
                alarms.ring(names.missed_schedule(schedule.name), self._missed(schedule, hours))

    def _watch_rare_ones(self, functions: Path, alarms: Alarms) -> OverdueSchedules | None:
        found = rare(self._names.environment.schedules)
        if not found:
            return None
        overdue = OverdueSchedules(
            self, "Overdue", names=self._names, functions=functions, silent_hours=found
        )
        alarms.watch_functions({PURPOSE: overdue.watcher.function})
        return overdue

    def _undelivered(self, schedules: Schedules) -> cloudwatch.Alarm:
        metric = schedules.dead_letters.metric_approximate_number_of_messages_visible(
            period=cdk.Duration.minutes(5), statistic=cloudwatch.Stats.MAXIMUM
        )
        return cloudwatch.Alarm(
            self,
            "Undelivered",
            alarm_name=self._names.alarm("schedule-undelivered"),
            alarm_description=(
                f"A schedule could not start {self._names.pipeline}. The message in the dead-letter"
                " queue says why."
            ),
            metric=metric,
            threshold=1,
            evaluation_periods=1,
            comparison_operator=_AT_LEAST,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )

    def _missed(self, schedule: Schedule, hours: int) -> cloudwatch.Alarm:
        """Rings when the function has measured nothing for longer than two times of the schedule
        are apart.

        Of a rare one another function says that. Either way silence rings: without a value nobody
        knows that the schedule is on time.
        """
        overdue = self._overdue if hours > MAX_ALARM_HOURS else None
        unseen = ", is gone, or nobody looks" if overdue else ""
        return cloudwatch.Alarm(
            self,
            f"Missed-{schedule.name}",
            alarm_name=self._names.alarm(self._names.missed_schedule(schedule.name)),
            alarm_description=(
                f"The schedule {schedule.name} of {self._names.pipeline} has given no sign for"
                f" {hours} hours{unseen}."
            ),
            metric=overdue.metric(schedule.name) if overdue else self._signs(schedule),
            threshold=1,
            evaluation_periods=1 if overdue else hours,
            comparison_operator=(
                _AT_LEAST if overdue else cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
            ),
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
            actions_enabled=not schedule.paused,
        )

    def _signs(self, schedule: Schedule) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name="ScheduledStarts",
            dimensions_map={"Pipeline": self._names.pipeline, "Schedule": schedule.name},
            # Of deliveries, whether they started something or not: a start that an execution was in
            # the way of has not been missed.
            statistic=cloudwatch.Stats.SAMPLE_COUNT,
            period=cdk.Duration.hours(1),
        )
