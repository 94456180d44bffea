"""The function that proves that an execution's endpoint answers."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from shoal.constructs.pipeline.smoke_test_file import packed_files
from shoal.constructs.python_function import PythonFunction
from shoal.settings.names import Names

PURPOSE = "smoke-test"


class SmokeTest(Construct):
    """It may call this pipeline's endpoints, and nothing else."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        requests: bytes,
    ) -> None:
        """`requests` is what shoal.constructs.pipeline.smoke_test_file returns."""
        super().__init__(scope, construct_id)
        self.caller = PythonFunction(
            self,
            "Caller",
            names=names,
            purpose=PURPOSE,
            folder="smoke_test",
            module="step",
            files=packed_files(requests),
            description=(
                f"Sends requests to the endpoint of an execution of {names.pipeline} and judges"
                " the answers"
            ),
            timeout=cdk.Duration.minutes(2),
        )
        self.caller.role.allow_part("smoke-test")
        if names.environment.endpoint and names.environment.endpoint.has_own_server:
            self.caller.role.allow_part("smoke-test-archive")
