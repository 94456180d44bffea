"""One topic, and an alarm on it for each thing that somebody must look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from shoal.constructs.monitoring.alarm import Alarm
from shoal.constructs.teardown.sweeper import EVERY, NAMESPACE
from shoal.settings.names import Names

PIPELINES = "AWS/Sagemaker/ModelBuildingPipeline"
_PUBLISHERS = ("cloudwatch.amazonaws.com", "budgets.amazonaws.com")


def waiting(queue: str) -> cloudwatch.Metric:
    """Return how many messages wait in the queue of this name."""
    return cloudwatch.Metric(
        namespace="AWS/SQS",
        metric_name="ApproximateNumberOfMessagesVisible",
        dimensions_map={"QueueName": queue},
        statistic=cloudwatch.Stats.MAXIMUM,
        period=cdk.Duration.minutes(5),
    )


class Alarms(Construct):
    """`topic` mails to `observability.alert_emails`; `alarms` are by their purpose.

    What they watch is given by name: CloudFormation refuses to delete what another stack imports,
    and settings take functions and queues away (docs/decisions/stacks.md).
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, key: kms.Key) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._account = names.environment.account
        self.topic = sns.Topic(
            self, "Topic", topic_name=names.topic, master_key=key, enforce_ssl=True
        )
        self._let_services_publish(key)
        for address in names.environment.observability.alert_emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
        self.alarms: dict[str, Alarm] = {}
        self._watch_executions()
        self._watch_sweeps()

    def add(self, purpose: str, alarm: Alarm) -> None:
        """Send `alarm` to the topic."""
        self.alarms[purpose] = alarm
        alarm.notify(self.topic)

    def watch_teardown(self, purpose: str) -> None:
        """Ring when the function for `purpose` has given up an execution."""
        self._add(
            "not-torn-down",
            f"An endpoint of {self._names.pipeline} may still run: its teardown gave up. See the"
            " dead-letter queue.",
            waiting(self._names.dead_letters(purpose)),
        )

    def watch_functions(self, purposes: Iterable[str]) -> None:
        """Ring when a function for one of these purposes has raised an error."""
        for purpose in purposes:
            function = self._names.function(purpose)
            metric = cloudwatch.Metric(
                namespace="AWS/Lambda",
                metric_name="Errors",
                dimensions_map={"FunctionName": function},
                statistic=cloudwatch.Stats.SUM,
                period=cdk.Duration.minutes(15),
            )
            self._add(
                f"{purpose}-errors",
                f"The function {function} has failed; its log says why.",
                metric,
            )

    def _watch_executions(self) -> None:
        metric = self._metric(PIPELINES, "ExecutionFailed", "PipelineName")
        self._add(
            "execution-failed",
            f"An execution of {self._names.pipeline} has failed: `shoal status"
            f" {self._names.environment.name} latest` says at which step.",
            metric,
        )

    def _watch_sweeps(self) -> None:
        past_ttl = self._metric(
            NAMESPACE,
            "EndpointsPastTtl",
            "Pipeline",
            cloudwatch.Stats.MAXIMUM,
            2 * EVERY.to_minutes(),
        )
        self._add(
            "endpoint-past-ttl",
            f"An endpoint of {self._names.pipeline} is older than"
            f" {self._names.environment.ttl_minutes} minutes and costs money.",
            past_ttl,
            # Two sweeps in a row: the first one that sees an endpoint past its time deletes it.
            periods=2,
        )
        sweeps = self._metric(
            NAMESPACE, "Sweeps", "Pipeline", cloudwatch.Stats.SUM, 4 * EVERY.to_minutes()
        )
        self._add(
            "sweep-missed",
            f"Nothing has looked for forgotten endpoints of {self._names.pipeline} for an hour.",
            sweeps,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            rings_without_values=True,
        )

    def _add(
        self, purpose: str, description: str, metric: cloudwatch.Metric, **options: Any
    ) -> None:
        alarm = Alarm(
            self,
            purpose,
            names=self._names,
            purpose=purpose,
            description=description,
            metric=metric,
            **options,
        )
        self.add(purpose, alarm)

    def _metric(
        self,
        namespace: str,
        name: str,
        dimension: str,
        statistic: str = cloudwatch.Stats.SUM,
        minutes: float = 5,
    ) -> cloudwatch.Metric:
        where = {dimension: self._names.pipeline}
        period = cdk.Duration.minutes(minutes)
        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=name,
            dimensions_map=where,
            statistic=statistic,
            period=period,
        )

    def _let_services_publish(self, key: kms.Key) -> None:
        """Name the services in the policies of topic and key, on behalf of this account only: they
        publish without a role.

        Source: SNS developer guide, "Enable compatibility between event sources from AWS services
        and encrypted topics".
        """
        own_account = {"StringEquals": {"aws:SourceAccount": self._account}}
        for service in _PUBLISHERS:
            principal = iam.ServicePrincipal(service)
            sid = service.partition(".")[0].capitalize()
            self.topic.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=f"{sid}Publishes",
                    principals=[principal],
                    actions=["sns:Publish"],
                    resources=[self.topic.topic_arn],
                    conditions=own_account,
                )
            )
            key.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=f"{sid}PublishesEncrypted",
                    principals=[principal],
                    actions=["kms:Decrypt", "kms:GenerateDataKey"],
                    resources=["*"],
                    conditions=own_account,
                )
            )
