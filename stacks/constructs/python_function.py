"""A Lambda function from a folder of `stacks/functions/`, with its own name, log group and role."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from config.names import Names
from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.actor_role import ActorRole


class PythonFunction(Construct):
    """`function` and its `role`, which may write only the function's log until more is allowed."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        purpose: str,
        folder: Path,
        description: str,
        timeout: cdk.Duration,
        environment: Mapping[str, str] | None = None,
        module: str = "handler",
        memory_mb: int = 256,
    ) -> None:
        super().__init__(scope, construct_id)
        self.purpose = purpose
        self.role = ActorRole(
            self, "Role", names=names, actor=purpose, service="lambda", description=description
        )
        log_group = logs.LogGroup(
            self,
            "Log",
            log_group_name=f"/aws/lambda/{names.function(purpose)}",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.role.allow(
            "WriteOwnLog",
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            on=[names.arn("logs", f"log-group:/aws/lambda/{names.function(purpose)}:*")],
            because="The streams of the function's own log group; Lambda makes up their names.",
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=names.function(purpose),
            description=description,
            runtime=lambda_.Runtime.PYTHON_3_12,
            handler=f"{module}.handler",
            code=lambda_.Code.from_asset(str(folder), exclude=["__pycache__", "*.pyc"]),
            role=self.role,
            log_group=log_group,
            timeout=timeout,
            memory_size=memory_mb,
            environment=dict(environment or {}),
        )
        acknowledge(
            self.function,
            {
                "AwsSolutions-L1": (
                    "Python 3.12 is the newest version that the tests and the local emulator run,"
                    " too."
                )
            },
        )
