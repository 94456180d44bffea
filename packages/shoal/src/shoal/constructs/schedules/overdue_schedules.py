"""Watches schedules that are rarer than an alarm can look back: a function looks further, every
hour, and measures what it finds.

It is not part of the sweeper: it may read what starts executions and what was measured of them, and
delete nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from shoal.constructs.functions.scheduled_function import ScheduledFunction
from shoal.constructs.teardown.sweeper import NAMESPACE
from shoal.settings.names import Names

PURPOSE = "overdue"
EVERY = cdk.Duration.hours(1)


class OverdueSchedules(ScheduledFunction):
    """`silent_hours`: schedule -> hours without a sign after which it has missed a time."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        silent_hours: Mapping[str, int],
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            names=names,
            function_id="Watcher",
            purpose=PURPOSE,
            folder="overdue",
            description=f"Says which of the rare schedules of {names.pipeline} are overdue",
            rule_description=f"Looks for overdue schedules of {names.pipeline}",
            every=EVERY,
            timeout=cdk.Duration.minutes(1),
            environment={
                "PIPELINE_NAME": names.pipeline,
                "SCHEDULE_GROUP": names.schedule_group,
                "SILENT_HOURS": json.dumps(dict(silent_hours)),
            },
        )
        self._names = names
        role = self.scheduled.role
        role.allow(
            "SeeSchedules",
            ["scheduler:GetSchedule"],
            on=[names.schedule_arn(name) for name in silent_hours],
        )
        role.allow(
            "SeeSigns",
            ["cloudwatch:GetMetricData"],
            on=["*"],
            because="GetMetricData has no resource type in IAM.",
        )
        role.allow_part("measure", namespace=NAMESPACE)

    def metric(self, schedule: str) -> cloudwatch.Metric:
        """Return the metric: 1 when the schedule was overdue at any of three looks.

        It has no value when the schedule is paused, or when nobody looks.
        """
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name="ScheduleOverdue",
            dimensions_map={"Pipeline": self._names.pipeline, "Schedule": schedule},
            statistic=cloudwatch.Stats.MAXIMUM,
            period=cdk.Duration.minutes(3 * EVERY.to_minutes()),
        )
