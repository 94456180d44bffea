"""Deletes endpoints past their time to live, whatever else has failed, and watches the schedules
that are rarer than an alarm can look back.
"""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from shoal.constructs.python_function import PythonFunction
from shoal.constructs.teardown.teardown_guard import allow_deletion, deletion_variables
from shoal.settings.names import Names
from shoal.settings.sections.schedules import rare

PURPOSE = "sweep"
NAMESPACE = "Shoal"
EVERY = cdk.Duration.minutes(15)


class Sweeper(Construct):
    """`cleaner`, and the rule that calls it. It looks at what exists, so it depends on no event,
    queue or other function. The rule does not repeat a call, for the next one comes anyway; Lambda
    repeats one that failed twice, which does no harm.

    It is there without an endpoint, too: an earlier definition may have left one.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        silent_hours = rare(names.environment.schedules)
        variables = {
            "PIPELINE_NAME": names.pipeline,
            "PIPELINE_ARN": names.pipeline_arn,
            **deletion_variables(names),
            "TTL_MINUTES": str(names.environment.ttl_minutes),
        }
        if silent_hours:
            variables["SCHEDULE_GROUP"] = names.schedule_group
            variables["SILENT_HOURS"] = json.dumps(silent_hours)
        self.cleaner = PythonFunction(
            self,
            "Cleaner",
            names=names,
            purpose=PURPOSE,
            folder="teardown",
            module="sweep",
            description=(
                f"Deletes what executions of {names.pipeline} left for longer than their time to"
                " live"
            ),
            timeout=cdk.Duration.minutes(5),
            environment=variables,
        )
        events.Rule(
            self,
            "Schedule",
            description=f"Sweeps after {names.pipeline}",
            schedule=events.Schedule.rate(EVERY),
            targets=[targets.LambdaFunction(self.cleaner.function, retry_attempts=0)],
        )
        allow_deletion(self.cleaner, names)
        role = self.cleaner.role
        role.allow_part("measure", namespace=NAMESPACE)
        if silent_hours:
            role.allow_part("watch-schedules", rare=list(silent_hours))
