"""Alarms that roll back a deployment of the serving endpoint, and that ring at any other time.

They watch only the new fleet, by the dimension EndpointConfigName. If they watched the old one as
well, a release that repairs what is live would be rolled back by what it repairs (SageMaker
developer guide, "Auto-Rollback Configuration and Monitoring"). Metrics and units: "Amazon SageMaker
AI metrics in Amazon CloudWatch". For errors each request sends 1 or 0, so their average is a rate.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from shoal.constructs.monitoring.alarm import Alarm
from shoal.settings.names import Names
from shoal.settings.sections.serving import Alarms

_NAMESPACE = "AWS/SageMaker"
LATENCY, SERVER_ERRORS, MODEL_ERRORS = WATCHED = (
    "serving-latency",
    "serving-errors",
    "serving-model-errors",
)


class ServingAlarms(Construct):
    """`names` are in the order of WATCHED.

    The alarms must exist before the endpoint, and not ring when its deployment begins.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        limits: Alarms,
        variant: str,
        config_name: str,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names, self._limits, self._topic = names, limits, topic
        self._fleet = {
            "EndpointName": names.serving_endpoint,
            "VariantName": variant,
            "EndpointConfigName": config_name,
        }
        p99, rate, any_rate = (
            limits.p99_latency_ms,
            limits.error_rate_percent,
            limits.model_error_rate_percent,
        )
        # ModelLatency is in microseconds.
        self._add(
            LATENCY,
            f"takes longer than {p99} ms for one request in a hundred",
            "ModelLatency",
            "p99",
            p99 * 1000,
        )
        self._add(
            SERVER_ERRORS,
            f"answers more than {rate:g} % of the requests with 5XX",
            "Invocation5XXErrors",
            "Average",
            rate / 100,
        )
        self._add(
            MODEL_ERRORS,
            f"answers more than {any_rate:g} % with no 2XX",
            "InvocationModelErrors",
            "Average",
            any_rate / 100,
        )

    @property
    def names(self) -> list[str]:
        return [self._names.alarm(purpose) for purpose in WATCHED]

    def _add(
        self, purpose: str, description: str, metric: str, statistic: str, threshold: float
    ) -> None:
        alarm = Alarm(
            self,
            purpose,
            names=self._names,
            purpose=purpose,
            description=f"The endpoint {self._names.serving_endpoint} {description}.",
            metric=cloudwatch.Metric(
                namespace=_NAMESPACE,
                metric_name=metric,
                dimensions_map=self._fleet,
                statistic=statistic,
                period=cdk.Duration.minutes(1),
            ),
            threshold=threshold,
            periods=self._limits.minutes,
            comparison=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        )
        alarm.notify(self._topic)
