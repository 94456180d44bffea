"""Deletes endpoints past their time to live, whatever else has failed."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from shoal.constructs.functions.scheduled_function import ScheduledFunction
from shoal.constructs.teardown.teardown_guard import SCALED, log_retention
from shoal.settings.names import Names

PURPOSE = "sweep"
NAMESPACE = "Shoal"
EVERY = cdk.Duration.minutes(15)


class Sweeper(ScheduledFunction):
    """It looks at what exists, so it depends on no event, queue or other function.

    It is there without an endpoint, too: an earlier definition may have left one.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(
            scope,
            construct_id,
            names=names,
            function_id="Cleaner",
            purpose=PURPOSE,
            folder="teardown",
            module="sweep",
            description=(
                f"Deletes what executions of {names.pipeline} left for longer than their time to"
                " live"
            ),
            rule_description=f"Sweeps after {names.pipeline}",
            every=EVERY,
            timeout=cdk.Duration.minutes(5),
            environment={
                "PIPELINE_NAME": names.pipeline,
                "PIPELINE_ARN": names.pipeline_arn,
                **log_retention(names),
                "TTL_MINUTES": str(names.environment.ttl_minutes),
            },
        )
        self.scheduled.role.allow_part("teardown", scaled=[*SCALED])
        self.scheduled.role.allow_part("measure", namespace=NAMESPACE)
