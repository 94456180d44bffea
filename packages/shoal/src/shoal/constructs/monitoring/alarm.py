"""A CloudWatch alarm with this project's defaults, and the metric that it watches."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from shoal.settings.names import Names

_COMPARISON = cloudwatch.ComparisonOperator


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
    """Rings when the metric is at least 1, and not when values are missing.

    It is named after `purpose`.
    """

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
        comparison: cloudwatch.ComparisonOperator = (
            _COMPARISON.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
        ),
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
