"""Deletes an execution's endpoint when the execution ends, in whatever way.

Terminal status event -> queue -> function. The queue brings an execution back until nothing of it
is left: after 30 s, 60 s and so on up to 15 minutes. After two hours the message goes to the
dead-letter queue, on which `MonitoringStack` has an alarm.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from shoal.constructs.functions.python_function import PythonFunction
from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.roles.guard_rails import ours, ours_or_missing
from shoal.settings.names import Names

PURPOSE = "teardown"
TERMINAL_STATUSES = ("Succeeded", "Failed", "Stopped", "CompletedWithFailures")
_FUNCTION_TIMEOUT = cdk.Duration.seconds(90)
# After this a message comes back if its function was lost. A function that only has to wait sets
# its own time.
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
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self.deleter = PythonFunction(
            self,
            "Deleter",
            names=names,
            purpose=PURPOSE,
            folder="teardown",
            module="teardown",
            description=(
                f"Deletes endpoint, configuration and model of an execution of {names.pipeline}"
            ),
            timeout=_FUNCTION_TIMEOUT,
            environment={
                "PIPELINE_NAME": names.pipeline,
                **log_retention(names),
                "RETRY_AFTER_S": str(int(_RETRY_AFTER.to_seconds())),
            },
        )
        allow_deletion(self.deleter.role, names)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            queue_name=names.dead_letters(PURPOSE),
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
        self._connect()

    def _connect(self) -> None:
        events.Rule(
            self,
            "ExecutionEnded",
            description=f"Every end of an execution of {self._names.pipeline}",
            event_pattern=execution_ended(self._names),
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


def log_retention(names: Names) -> dict[str, str]:
    """Return the variable that says how long the logs of deleted endpoints are kept."""
    return {"LOG_RETENTION_DAYS": str(names.environment.observability.log_retention_days)}


def allow_deletion(role: ActorRole, names: Names) -> None:
    """Let `role` find and delete what executions of the pipeline create for serving."""
    named = f"{names.pipeline}-*"
    why = "What an execution creates is named after the pipeline and the execution."
    for kind, operand in (("endpoint", "Endpoint"), ("endpoint-config", "EndpointConfig")):
        plural = operand.removeprefix("Endpoint") or operand
        on = [names.arn("sagemaker", f"{kind}/{named}")]
        role.allow(
            f"See{plural}s",
            [f"sagemaker:Describe{operand}"],
            on=on,
            when=ours_or_missing(names),
            because=why,
        )
        # A person's own may be named alike, as `dev-experimental`: the tag decides.
        role.allow(
            f"Delete{plural}s",
            [f"sagemaker:Delete{operand}"],
            on=on,
            when=ours(names),
            because=why,
        )
    models = [names.arn("sagemaker", f"model/{prefix}") for prefix in (named, "pipelines-*")]
    why = "SageMaker makes up the name of a Model step's model, with this documented prefix."
    role.allow(
        "SeeModels",
        ["sagemaker:DescribeModel"],
        on=models,
        when=ours_or_missing(names),
        because=why,
    )
    role.allow("DeleteModels", ["sagemaker:DeleteModel"], on=models, when=ours(names), because=why)
    _allow_unscaling(role, names)
    role.allow(
        "LimitLogs",
        ["logs:PutRetentionPolicy"],
        on=[names.arn("logs", f"log-group:/aws/sagemaker/Endpoints/{named}")],
        because="SageMaker names the log group after the endpoint.",
    )
    role.allow(
        "ListSteps",
        ["sagemaker:ListPipelineExecutionSteps"],
        on=[f"{names.pipeline_arn}/execution/*"],
        because="Executions of this one pipeline.",
    )
    role.allow(
        "SeeExecutions",
        ["sagemaker:DescribePipelineExecution"],
        on=[f"{names.pipeline_arn}/execution/*"],
        because="Executions of this one pipeline.",
    )
    role.allow(
        "ReadTags",
        ["sagemaker:ListTags"],
        on=[
            *(
                names.arn("sagemaker", f"{kind}/{named}")
                for kind in ("endpoint", "endpoint-config")
            ),
            *models,
        ],
        because=(
            "Tags say whose something is whose name does not; another pipeline's are read and left"
            " alone."
        ),
    )
    role.allow(
        "ListByName",
        ["sagemaker:ListEndpointConfigs", "sagemaker:ListEndpoints", "sagemaker:ListModels"],
        on=["*"],
        because="SageMaker's List actions have no resource type in IAM.",
    )


def _allow_unscaling(role: ActorRole, names: Names) -> None:
    role.allow(
        "SeeScalableTargets",
        ["application-autoscaling:DescribeScalableTargets"],
        on=["*"],
        because="Application Auto Scaling's Describe actions have no resource type in IAM.",
    )
    only_variants = {
        "application-autoscaling:service-namespace": "sagemaker",
        "application-autoscaling:scalable-dimension": [*SCALED],
    }
    role.allow(
        "StopScaling",
        ["application-autoscaling:DeregisterScalableTarget"],
        on=[names.arn("application-autoscaling", "scalable-target/*")],
        when={"StringEquals": only_variants},
        because=(
            "A target's ARN ends in an id that AWS makes up, and no condition key names its"
            " endpoint; it is of an endpoint's variant."
        ),
    )
