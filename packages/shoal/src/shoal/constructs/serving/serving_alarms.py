"""Alarms that roll back a deployment of the serving endpoint, and that ring at any other time.

They watch only the new fleet, by the dimension EndpointConfigName. If they watched the old one as
well, a release that repairs what is live would be rolled back by what it repairs (SageMaker
developer guide, "Auto-Rollback Configuration and Monitoring"). Metrics and units: "Amazon SageMaker
AI metrics in Amazon CloudWatch". For errors each request sends 1 or 0, so their average is a rate.
"""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from shoal.constructs.monitoring.alarm import Alarm, metric
from shoal.settings.names import Names
from shoal.settings.sections.serving import Alarms


class ServingAlarms(Construct):
    """`names` are those of the alarms.

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
        fleet = {
            "EndpointName": names.serving_endpoint,
            "VariantName": variant,
            "EndpointConfigName": config_name,
        }
        p99, rate, any_rate = (
            limits.p99_latency_ms,
            limits.error_rate_percent,
            limits.model_error_rate_percent,
        )
        slow = f"takes longer than {p99} ms for one request in a hundred"
        failing = f"answers more than {rate:g} % of the requests with 5XX"
        wrong = f"answers more than {any_rate:g} % with no 2XX"
        watched = (
            # ModelLatency is in microseconds.
            ("serving-latency", slow, "ModelLatency", "p99", p99 * 1000),
            ("serving-errors", failing, "Invocation5XXErrors", "Average", rate / 100),
            ("serving-model-errors", wrong, "InvocationModelErrors", "Average", any_rate / 100),
        )
        self.names = [names.alarm(purpose) for purpose, *_ in watched]
        for purpose, description, name, statistic, threshold in watched:
            alarm = Alarm(
                self,
                purpose,
                names=names,
                purpose=purpose,
                description=f"The endpoint {names.serving_endpoint} {description}.",
                metric=metric("AWS/SageMaker", name, fleet, statistic, minutes=1),
                threshold=threshold,
                periods=limits.minutes,
                comparison=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            )
            alarm.notify(topic)
