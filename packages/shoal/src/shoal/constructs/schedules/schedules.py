"""Schedules and manifests start the pipeline, and no two of its executions run at once.

EventBridge Scheduler, or S3's event of a manifest -> function `start` -> StartPipelineExecution, if
nothing runs. docs/decisions/schedules.md says why not directly.
"""

from __future__ import annotations

import json
from collections.abc import Collection

import aws_cdk as cdk
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from shoal.constructs.functions.python_function import PythonFunction
from shoal.constructs.roles.acknowledge import acknowledge
from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.schedules.manifest_start import manifest_variables, start_on_manifest
from shoal.constructs.teardown.sweeper import NAMESPACE
from shoal.settings.hyperparameters import as_text
from shoal.settings.names import Names
from shoal.settings.sections.schedules import DELIVERY_MINUTES, Schedule

PURPOSE = "start"
ACTOR = "scheduler"
RETRIES = 2
_FUNCTION_TIMEOUT = cdk.Duration.minutes(1)


class Schedules(Construct):
    """`starter`, which the schedules call, and `dead_letters`, for deliveries that Scheduler gave
    up.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        parameters: Collection[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self.starter = PythonFunction(
            self,
            "Starter",
            names=names,
            purpose=PURPOSE,
            folder="start",
            description=f"Starts executions of {names.pipeline} on schedule, one at a time",
            timeout=_FUNCTION_TIMEOUT,
            environment={"PIPELINE_NAME": names.pipeline, **manifest_variables(names, parameters)},
        )
        self.starter.role.allow_part("start")
        self.starter.role.allow_part("measure", namespace=NAMESPACE)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=names.dead_letters(PURPOSE),
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        why = "This is a dead-letter queue, of schedules; the rule knows those of queues."
        acknowledge(self.dead_letters, {"AwsSolutions-SQS3": why})
        if names.environment.schedules:
            self._group = scheduler.CfnScheduleGroup(self, "Group", name=names.schedule_group)
            # Scheduler assumes it for schedules of our group, and for no others.
            self._role = ActorRole(
                self,
                "Role",
                names=names,
                actor=ACTOR,
                service="scheduler",
                description=f"Calls what starts {names.pipeline}",
                source=names.arn("scheduler", f"schedule-group/{names.schedule_group}"),
            )
            function, queue = self.starter.function.function_arn, self.dead_letters.queue_arn
            self._role.allow_part("scheduler", function=function, queue=queue)
        for schedule in names.environment.schedules:
            self._add(schedule)
        if names.environment.data.on_manifest:
            start_on_manifest(
                self, names=names, starter=self.starter, dead_letters=self.dead_letters
            )

    def _add(self, schedule: Schedule) -> None:
        window = schedule.window_minutes
        resource = scheduler.CfnSchedule(
            self,
            f"Schedule-{schedule.name}",
            name=schedule.name,
            group_name=self._group.ref,
            description=f"Starts {self._names.pipeline}",
            schedule_expression=schedule.expression,
            schedule_expression_timezone=schedule.time_zone,
            state="DISABLED" if schedule.paused else "ENABLED",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(
                mode="FLEXIBLE" if window else "OFF", maximum_window_in_minutes=window or None
            ),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=self.starter.function.function_arn,
                role_arn=self._role.role_arn,
                input=self._input(schedule),
                # The defaults are 185 attempts within a day: a start that comes hours late would
                # run into the next one.
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=RETRIES,
                    maximum_event_age_in_seconds=DELIVERY_MINUTES * 60,
                ),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                    arn=self.dead_letters.queue_arn
                ),
            ),
        )
        # With the role's policy: a rate calls as soon as it exists.
        resource.node.add_dependency(self._role, self.starter)

    def _input(self, schedule: Schedule) -> str:
        """Return the function's event.

        Scheduler fills in the time (user guide, "Adding context attributes").
        """
        parameters = {name: as_text(value) for name, value in schedule.parameters.items()}
        event = {
            "schedule": schedule.name,
            "schedule_arn": self._names.schedule_arn(schedule.name),
            "scheduled_time": "<aws.scheduler.scheduled-time>",
            "parameters": parameters,
        }
        return json.dumps(event)
