"""What starts the pipeline by itself, schedules and manifests, and the alarms on that."""

import json
from collections.abc import Collection
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from shoal.constructs.monitoring.alarms import Alarm, Alarms, metric, waiting
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.roles.actor_role import ActorRole, acknowledge
from shoal.constructs.teardown import NAMESPACE
from shoal.settings.hyperparameters import as_text
from shoal.settings.names import Names
from shoal.settings.sections.channels import MANIFEST_PARAMETER, OnManifest, uri_parameter
from shoal.settings.sections.schedules import (
    DELIVERY_MINUTES,
    MAX_ALARM_HOURS,
    Schedule,
    silent_hours,
)

PURPOSE = "start"
_RETRIES = 2


class Schedules(Construct):
    """`starter`, which the schedules call, and `dead_letters`, for deliveries that Scheduler gave
    up.

    EventBridge Scheduler, or S3's event of a manifest -> function `start` ->
    StartPipelineExecution, if nothing runs. docs/decisions/schedules.md says why not directly.
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
                actor="scheduler",
                service="scheduler",
                description=f"Calls what starts {names.pipeline}",
                source=names.arn("scheduler", f"schedule-group/{names.schedule_group}"),
            )
            function, queue = self.starter.function.function_arn, self.dead_letters.queue_arn
            self._role.allow_part("scheduler", function=function, queue=queue)
        for schedule in names.environment.schedules:
            self._add(schedule)
        if manifest := names.environment.data.on_manifest:
            self._start_on(manifest)

    def _add(self, schedule: Schedule) -> None:
        window = schedule.window_minutes
        event = {
            "schedule": schedule.name,
            "schedule_arn": self._names.schedule_arn(schedule.name),
            # filled in by Scheduler (user guide, "Adding context attributes")
            "scheduled_time": "<aws.scheduler.scheduled-time>",
            "parameters": {name: as_text(value) for name, value in schedule.parameters.items()},
        }
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
                input=json.dumps(event),
                # The defaults are 185 attempts within a day: a start that comes hours late would
                # run into the next one.
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=_RETRIES,
                    maximum_event_age_in_seconds=DELIVERY_MINUTES * 60,
                ),
                dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                    arn=self.dead_letters.queue_arn
                ),
            ),
        )
        # With the role's policy: a rate calls as soon as it exists.
        resource.node.add_dependency(self._role, self.starter)

    def _start_on(self, manifest: OnManifest) -> None:
        """Call the function when S3 sends `Object Created` of a manifest.

        What cannot be delivered within an hour goes to the dead-letter queue.
        """
        names, keys = self._names, _manifests(self._names, manifest.file)
        self.starter.role.allow_part("manifests", manifests=keys, datasets=names.dataset_folders)
        patterns: list[Any] = [{"wildcard": key} if "*" in key else key for key in keys]
        if not names.environment.workloads:
            patterns = [{"suffix": f"/{manifest.file}"}]
        events.Rule(
            self,
            "ManifestArrived",
            description=f"A dataset for {names.pipeline} is complete",
            event_pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created"],
                detail={
                    "bucket": {"name": [names.bucket("data")]},
                    "object": {"key": patterns},
                },
            ),
            targets=[
                targets.LambdaFunction(
                    self.starter.function,
                    dead_letter_queue=self.dead_letters,
                    retry_attempts=_RETRIES,
                    max_event_age=cdk.Duration.hours(1),
                )
            ],
        )


def manifest_variables(names: Names, declared: Collection[str]) -> dict[str, str]:
    """Return what the function must know of manifests; empty where none start executions.

    `declared` are the pipeline's parameters: a user's own may have none for the folder's channels.
    """
    manifest = names.environment.data.on_manifest
    if manifest is None:
        return {}
    parameters = {name: as_text(value) for name, value in manifest.parameters.items()} | {
        MANIFEST_PARAMETER: "{manifest}"
    }
    # An optional channel, such as a base model, stays where it is.
    channels = {
        uri_parameter(name): f"{{folder}}/{name}/"
        for name, channel in names.environment.data.in_dataset.items()
        if not channel.optional
    }
    parameters |= {name: uri for name, uri in channels.items() if name in declared}
    return {
        "DATA_BUCKET": names.bucket("data"),
        "MANIFEST_FILE": manifest.file,
        "MANIFEST_PARAMETERS": json.dumps(parameters, sort_keys=True),
    }


def _manifests(names: Names, file: str) -> list[str]:
    """Return the keys of manifests, as patterns where datasets are named when they come."""
    if not names.environment.workloads:
        return [f"datasets/*/{file}"]
    own, versions = names.dataset_folders
    return [own.replace("*", file), f"{versions}/{file}"]


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
