"""The guard and the sweeper, which delete what executions leave."""

import json

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from shoal.constructs.python_function import PythonFunction
from shoal.settings.names import Names
from shoal.settings.sections.schedules import rare

TEARDOWN_PURPOSE = "teardown"
TERMINAL_STATUSES = ("Succeeded", "Failed", "Stopped", "CompletedWithFailures")
# Longer than the function's own time. After this a message comes back if its function was lost. A
# function that only has to wait sets its own time.
_VISIBILITY_TIMEOUT = cdk.Duration.seconds(120)
_RETRY_AFTER = cdk.Duration.seconds(30)
# An endpoint whose container fails stays Creating, undeletable, for up to an hour. 30, 60, 120,
# 240, 480 and seven times 900 s: two hours.
_TRIES = 12
SCALED = (
    "sagemaker:variant:DesiredInstanceCount",
    "sagemaker:variant:DesiredProvisionedConcurrency",
)
"""The dimensions of an endpoint's variant that Application Auto Scaling scales: instances, or what
a serverless variant keeps warm.
"""


class TeardownGuard(Construct):
    """`deleter` is called by the pipeline's Teardown step and by the queue behind the
    terminal-status rule.

    Terminal status event -> queue -> function. The queue brings an execution back until nothing of
    it is left: after 30 s, 60 s and so on up to 15 minutes. After two hours the message goes to the
    dead-letter queue, on which `MonitoringStack` has an alarm.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self.deleter = PythonFunction(
            self,
            "Deleter",
            names=names,
            purpose=TEARDOWN_PURPOSE,
            environment={
                "PIPELINE_NAME": names.pipeline,
                **deletion_variables(names),
                "RETRY_AFTER_S": str(int(_RETRY_AFTER.to_seconds())),
            },
        )
        allow_deletion(self.deleter, names)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=names.dead_letters(TEARDOWN_PURPOSE),
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            enforce_ssl=True,
            visibility_timeout=_VISIBILITY_TIMEOUT,
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.dead_letters, max_receive_count=_TRIES
            ),
        )
        events.Rule(
            self,
            "ExecutionEnded",
            description=f"Every end of an execution of {names.pipeline}",
            event_pattern=execution_ended(names),
            targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.dead_letters)],
        )
        self.deleter.function.add_event_source(
            event_sources.SqsEventSource(self.queue, batch_size=1, report_batch_item_failures=True)
        )


def execution_ended(names: Names) -> events.EventPattern:
    """Return the pattern of the event that an execution of the pipeline has ended."""
    return events.EventPattern(
        source=["aws.sagemaker"],
        detail_type=["SageMaker Model Building Pipeline Execution Status Change"],
        detail={
            "pipelineArn": [names.pipeline_arn],
            "currentPipelineExecutionStatus": [*TERMINAL_STATUSES],
        },
    )


def deletion_variables(names: Names) -> dict[str, str]:
    """Return what a function must know that deletes what executions left: how long the logs of
    endpoints are kept, and whether jobs keep instances warm.
    """
    return {
        "LOG_RETENTION_DAYS": str(names.environment.observability.log_retention_days),
        **({"WARM_POOLS": "1"} if _keeps_warm(names) else {}),
    }


def allow_deletion(deleter: PythonFunction, names: Names) -> None:
    """Let a function delete what executions left."""
    deleter.role.allow_part("teardown", scaled=[*SCALED])
    if _keeps_warm(names):
        deleter.role.allow_part("warm-pools")


def _keeps_warm(names: Names) -> bool:
    return names.environment.training.capacity.keep_alive_s is not None


SWEEPER_PURPOSE = "sweep"
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
            purpose=SWEEPER_PURPOSE,
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
