"""Alarms, one topic for all of them, and the budget: what tells somebody of trouble."""

from collections.abc import Iterable, Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from shoal.constructs.roles.actor_role import resource_policy
from shoal.constructs.teardown import EVERY, NAMESPACE
from shoal.settings.key_policy import PUBLISHERS
from shoal.settings.names import Names

_AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD


def metric(
    namespace: str, name: str, dimensions: Mapping[str, str], statistic: str, minutes: float
) -> cloudwatch.Metric:
    """Return a metric's statistic over periods of so many minutes."""
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        period=cdk.Duration.minutes(minutes),
    )


class Alarm(cloudwatch.Alarm):
    """Rings when the metric is at least 1, not when values are missing; named after `purpose`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        purpose: str,
        description: str,
        metric: cloudwatch.IMetric,
        threshold: float = 1,
        periods: int = 1,
        comparison: cloudwatch.ComparisonOperator = _AT_LEAST,
        rings_without_values: bool = False,
        enabled: bool | None = None,
    ) -> None:
        missing = cloudwatch.TreatMissingData
        super().__init__(
            scope,
            construct_id,
            alarm_name=names.alarm(purpose),
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=comparison,
            treat_missing_data=missing.BREACHING if rings_without_values else missing.NOT_BREACHING,
            actions_enabled=enabled,
        )

    def notify(self, topic: sns.ITopic) -> None:
        """Send to the topic when it begins to ring, and when that is over."""
        self.add_alarm_action(actions.SnsAction(topic))
        self.add_ok_action(actions.SnsAction(topic))


PIPELINES = "AWS/Sagemaker/ModelBuildingPipeline"
_SUM, _MAX = cloudwatch.Stats.SUM, cloudwatch.Stats.MAXIMUM


def waiting(queue: str) -> cloudwatch.Metric:
    """Return how many messages wait in the queue of this name."""
    return metric(
        "AWS/SQS", "ApproximateNumberOfMessagesVisible", {"QueueName": queue}, _MAX, minutes=5
    )


class Alarms(Construct):
    """`topic` mails to `observability.alert_emails`; `alarms` are by their purpose.

    What they watch is given by name: CloudFormation refuses to delete what another stack imports,
    and settings take functions and queues away (docs/decisions/stacks.md).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        key: kms.Key | kms.IKey,
        topic: sns.Topic | None = None,
    ) -> None:
        """`topic` is one that is there already."""
        super().__init__(scope, construct_id)
        self._names = names
        self.topic = topic or self._own_topic(key)
        self.alarms: dict[str, Alarm] = {}
        self._add(
            "execution-failed",
            f"An execution of {names.pipeline} has failed: `shoal status {names.environment.name}"
            f" {'ID' if names.part else 'latest'}` says at which step.",
            metric(PIPELINES, "ExecutionFailed", {"PipelineName": names.pipeline}, _SUM, minutes=5),
        )
        self._watch_sweeps()

    def _own_topic(self, key: kms.Key | kms.IKey) -> sns.Topic:
        """Return a topic to which services publish on behalf of this account only: they publish
        without a role. settings/key_policy.py has the key's policy.
        """
        names = self._names
        topic = sns.Topic(self, "Topic", topic_name=names.topic, master_key=key, enforce_ssl=True)
        for service in PUBLISHERS:
            principal, word = iam.ServicePrincipal(service), service.partition(".")[0].capitalize()
            arn = topic.topic_arn
            for each in resource_policy("publish", names, principal, Service=word, topic=arn):
                topic.add_to_resource_policy(each)
        for address in names.environment.observability.alert_emails:
            topic.add_subscription(subscriptions.EmailSubscription(address))
        return topic

    def add(self, purpose: str, alarm: Alarm) -> None:
        """Send `alarm` to the topic."""
        self.alarms[purpose] = alarm
        alarm.notify(self.topic)

    def watch_teardown(self, purpose: str) -> None:
        """Ring when the function for `purpose` has given up an execution."""
        pipeline = self._names.pipeline
        what = f"A model of {pipeline}" if self._names.part else f"An endpoint of {pipeline}"
        self._add(
            "not-torn-down",
            f"{what} may still {'exist' if self._names.part else 'run'}: its teardown gave up. See"
            " the dead-letter queue.",
            waiting(self._names.dead_letters(purpose)),
        )

    def watch_functions(self, purposes: Iterable[str]) -> None:
        """Ring when a function for one of these purposes has raised an error."""
        for purpose in purposes:
            function = self._names.function(purpose)
            self._add(
                f"{purpose}-errors",
                f"The function {function} has failed; its log says why.",
                metric("AWS/Lambda", "Errors", {"FunctionName": function}, _SUM, minutes=15),
            )

    def _watch_sweeps(self) -> None:
        pipeline, every = self._names.pipeline, EVERY.to_minutes()
        ours = {"Pipeline": pipeline}
        if not self._names.part:  # scoring makes no endpoints
            self._add(
                "endpoint-past-ttl",
                f"An endpoint of {pipeline} is older than {self._names.environment.ttl_minutes}"
                " minutes and costs money.",
                metric(NAMESPACE, "EndpointsPastTtl", ours, _MAX, minutes=2 * every),
                # Two sweeps in a row: the first one that sees an endpoint past its time deletes it.
                periods=2,
            )
        # CloudWatch prefers older values that are there to ones that are missing: one period of an
        # hour rang after three (CloudWatch user guide, "Configuring how CloudWatch alarms treat
        # missing data"). With FILL no period lacks a value.
        sweeps = metric(NAMESPACE, "Sweeps", ours, _SUM, minutes=every)
        self._add(
            "sweep-missed",
            f"Nothing has looked for forgotten endpoints of {pipeline} for an hour.",
            cloudwatch.MathExpression(
                expression="FILL(sweeps, 0)",
                using_metrics={"sweeps": sweeps},
                period=EVERY,
            ),
            periods=4,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            rings_without_values=True,
        )

    def _add(
        self, purpose: str, description: str, watched: cloudwatch.IMetric, **options: Any
    ) -> None:
        alarm = Alarm(
            self,
            purpose,
            names=self._names,
            purpose=purpose,
            description=description,
            metric=watched,
            **options,
        )
        self.add(purpose, alarm)


_NOTICES = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))


class MonthlyBudget(Construct):
    """It counts costs by the tag shoal:environment; for one of several workloads by shoal:workload,
    so what they share is in no budget; else by the first of cost_allocation_tags. Stacks and the
    definition put them on everything. The payer's account must activate the tag once.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        amount_usd: int,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        tag = next(iter(names.cost_tags.items()))
        subscriber = budgets.CfnBudget.SubscriberProperty(
            subscription_type="SNS", address=topic.topic_arn
        )
        self.resource = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=names.prefix,
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=amount_usd, unit="USD"),
                # The documented form of a user-defined tag: user:KEY$VALUE (AWS Budgets API
                # reference, CostFilters).
                cost_filters={"TagKeyValue": ["user:{}${}".format(*tag)]},
            ),
            # Fixed: other notices would replace the budget, whose name is taken.
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[subscriber],
                )
                for kind, percent in _NOTICES
            ],
        )
