"""What a deployment should have made live goes in; a custom resource that fails the deployment if it did not comes out.

SageMaker's own rollback leaves an endpoint that is in service, with the old configuration: whoever only waits for that takes a
rolled-back deployment for a success (hashicorp/terraform-provider-aws#48997).
"""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from config.names import Names
from config.release import Release
from stacks.constructs.python_function import PythonFunction
from stacks.constructs.served_model import ServedModel

PURPOSE = "serving-proof"
_TIMEOUT = cdk.Duration.minutes(10)


class ServingProof(Construct):
    """`resource`; it has the release among its properties, so that it runs again for every one."""

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, functions: Path, release: Release, served: ServedModel
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self.prover = PythonFunction(
            self,
            "Prover",
            names=names,
            purpose=PURPOSE,
            folder=functions / "smoke_test",
            module="serving_proof",
            description=f"Proves that the endpoint {names.serving_endpoint} serves the pinned release",
            timeout=_TIMEOUT,
        )
        self._allow()
        weights = {"WeightsSha256": release.weights_sha256} if release.weights_sha256 else {}
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::ServingProof",
            service_token=self.prover.function.function_arn,
            service_timeout=cdk.Duration.minutes(_TIMEOUT.to_minutes() + 1),
            properties={
                "EndpointName": names.serving_endpoint,
                "EndpointConfigName": served.config.attr_endpoint_config_name,
                "ModelName": served.model.attr_model_name,
                "ModelPackageArn": release.model_package_arn,
                "ModelDataSha256": release.model_data_sha256,
                **weights,
            },
        )
        self.resource.node.add_dependency(self.prover)

    def _allow(self) -> None:
        names, role = self._names, self.prover.role
        role.allow("AskEndpoint", ["sagemaker:DescribeEndpoint", "sagemaker:InvokeEndpoint"], on=[names.serving_endpoint_arn])
        environment = names.environment
        tags = {"aws:ResourceTag/shoal:project": environment.project, "aws:ResourceTag/shoal:environment": environment.name}
        role.allow(
            "SeeWhatIsServed",
            ["sagemaker:DescribeEndpointConfig", "sagemaker:DescribeModel"],
            on=[names.arn("sagemaker", "endpoint-config/*"), names.arn("sagemaker", "model/*")],
            when={"StringEquals": tags},
            because="CloudFormation makes up their names; the condition names the environment.",
        )
        stack = cdk.Stack.of(self).stack_name
        role.allow(
            "SeeWhetherItRollsBack",
            ["cloudformation:DescribeStacks"],
            on=[names.arn("cloudformation", f"stack/{stack}/*")],
            because="CloudFormation makes up the id of the stack.",
        )
