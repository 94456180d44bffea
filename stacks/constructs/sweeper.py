"""Names go in; what deletes endpoints past their time to live, whatever else has failed, comes
out.
"""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from config.names import Names
from stacks.constructs.python_function import PythonFunction
from stacks.constructs.teardown_guard import allow_deletion

PURPOSE = "sweep"
NAMESPACE = "Shoal"
EVERY = cdk.Duration.minutes(15)
_FUNCTION_TIMEOUT = cdk.Duration.minutes(5)


class Sweeper(Construct):
    """`cleaner`, called by its own schedule.

    It looks at what exists, so it depends on no event, queue or other function.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, functions: Path
    ) -> None:
        super().__init__(scope, construct_id)
        self.cleaner = PythonFunction(
            self,
            "Cleaner",
            names=names,
            purpose=PURPOSE,
            folder=functions / "teardown",
            module="sweep",
            description=(
                f"Deletes what executions of {names.pipeline} left for longer than their time to"
                " live"
            ),
            timeout=_FUNCTION_TIMEOUT,
            environment={
                "PIPELINE_NAME": names.pipeline,
                "PIPELINE_ARN": names.pipeline_arn,
                "TTL_MINUTES": str(names.environment.endpoint.ttl_minutes),
            },
        )
        self._allow(names)
        events.Rule(
            self,
            "Schedule",
            description=f"Sweeps after {names.pipeline}",
            schedule=events.Schedule.rate(EVERY),
            targets=[targets.LambdaFunction(self.cleaner.function, retry_attempts=0)],
        )

    def _allow(self, names: Names) -> None:
        role = self.cleaner.role
        allow_deletion(role, names)
        role.allow_measurements(NAMESPACE)
