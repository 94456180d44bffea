"""Schedules rarer than an alarm can look back go in; a function that looks further, every hour, and
what it measures come out.

A function of its own, not the sweeper: it may read what starts executions and what was measured of
them, and delete nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from config.names import Names
from stacks.constructs.python_function import PythonFunction
from stacks.constructs.sweeper import NAMESPACE

PURPOSE = "overdue"
EVERY = cdk.Duration.hours(1)
_FUNCTION_TIMEOUT = cdk.Duration.minutes(1)


class OverdueSchedules(Construct):
    """`watcher`, called by its own rule.

    `silent_hours`: schedule -> hours without a sign after which it has missed a time.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        functions: Path,
        silent_hours: Mapping[str, int],
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self.watcher = PythonFunction(
            self,
            "Watcher",
            names=names,
            purpose=PURPOSE,
            folder=functions / "overdue",
            description=f"Says which of the rare schedules of {names.pipeline} are overdue",
            timeout=_FUNCTION_TIMEOUT,
            environment={
                "PIPELINE_NAME": names.pipeline,
                "SCHEDULE_GROUP": names.schedule_group,
                "SILENT_HOURS": json.dumps(dict(silent_hours)),
            },
        )
        self._allow(silent_hours)
        events.Rule(
            self,
            "Schedule",
            description=f"Looks for overdue schedules of {names.pipeline}",
            schedule=events.Schedule.rate(EVERY),
            targets=[targets.LambdaFunction(self.watcher.function, retry_attempts=0)],
        )

    def metric(self, schedule: str) -> cloudwatch.Metric:
        """1 when the schedule was overdue at any of three looks; nothing when it is paused, or
        nobody looks.
        """
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name="ScheduleOverdue",
            dimensions_map={"Pipeline": self._names.pipeline, "Schedule": schedule},
            statistic=cloudwatch.Stats.MAXIMUM,
            period=cdk.Duration.minutes(3 * EVERY.to_minutes()),
        )

    def _allow(self, schedules: Mapping[str, int]) -> None:
        role = self.watcher.role
        role.allow(
            "SeeSchedules",
            ["scheduler:GetSchedule"],
            on=[self._names.schedule_arn(name) for name in schedules],
        )
        role.allow(
            "SeeSigns",
            ["cloudwatch:GetMetricData"],
            on=["*"],
            because="GetMetricData has no resource type in IAM.",
        )
        role.allow_measurements(NAMESPACE)
