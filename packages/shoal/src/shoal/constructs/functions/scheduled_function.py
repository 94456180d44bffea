"""A function that a rule calls at a fixed rate."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from shoal.constructs.functions.python_function import PythonFunction
from shoal.settings.names import Names


class ScheduledFunction(Construct):
    """`scheduled`, the function, and its rule.

    A failed call is not repeated: the next one comes anyway.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        function_id: str,
        purpose: str,
        folder: str,
        module: str = "handler",
        description: str,
        rule_description: str,
        every: cdk.Duration,
        timeout: cdk.Duration,
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        self.scheduled = PythonFunction(
            self,
            function_id,
            names=names,
            purpose=purpose,
            folder=folder,
            module=module,
            description=description,
            timeout=timeout,
            environment=environment,
        )
        events.Rule(
            self,
            "Schedule",
            description=rule_description,
            schedule=events.Schedule.rate(every),
            targets=[targets.LambdaFunction(self.scheduled.function, retry_attempts=0)],
        )
