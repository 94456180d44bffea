"""Names, job roles, network and key go in; the role under which the SageMaker pipeline starts its steps comes out.

It may start jobs only in our subnets with our roles, register models only as pending approval, and touch only names that this
pipeline gives. Source: SageMaker developer guide, "Define a pipeline: IAM access", and the service authorization reference.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.names import Names
from stacks.constructs.actor_role import ActorRole

# SageMaker names what a step creates `pipelines-<execution id>-<step>-<suffix>`, unless the definition names it.
_GENERATED = "pipelines-*"


class PipelineRole(ActorRole):
    """Role of the pipeline itself; the jobs it starts run under their own roles."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor="pipeline",
            service="sagemaker",
            description=f"Starts the steps of {names.pipeline}.",
        )
        self._names = names
        self._allow_model_and_endpoint()
        self._allow_register()
        self._allow_step_outputs()

    def allow_training(self, subnets: Sequence[ec2.ISubnet], security_groups: Sequence[ec2.ISecurityGroup]) -> None:
        """Let the pipeline run training jobs, but only in these subnets with these security groups."""
        on = [self._names.arn("sagemaker", f"training-job/{_GENERATED}")]
        why = "SageMaker makes up the job's name; this is the documented prefix of pipeline steps."
        # ForAllValues alone also holds when a request has no VPC at all; Null closes that.
        inside = {
            "ForAllValues:StringEquals": {
                "sagemaker:VpcSubnets": [subnet.subnet_id for subnet in subnets],
                "sagemaker:VpcSecurityGroupIds": [group.security_group_id for group in security_groups],
            },
            "Null": {"sagemaker:VpcSubnets": "false", "sagemaker:VpcSecurityGroupIds": "false"},
        }
        self.allow("StartTraining", ["sagemaker:CreateTrainingJob"], on=on, when=inside, because=why)
        self.allow(
            "FollowTraining",
            ["sagemaker:AddTags", "sagemaker:DescribeTrainingJob", "sagemaker:StopTrainingJob"],
            on=on,
            because=why,
        )

    def allow_processing(self) -> None:
        """Let the pipeline run processing jobs."""
        self.allow(
            "RunProcessing",
            ["sagemaker:AddTags", "sagemaker:CreateProcessingJob", "sagemaker:DescribeProcessingJob", "sagemaker:StopProcessingJob"],
            on=[self._names.arn("sagemaker", f"processing-job/{_GENERATED}")],
            because="SageMaker makes up the job's name; this is the documented prefix of pipeline steps.",
        )

    def allow_functions(self, function_names: Sequence[str]) -> None:
        """Let Lambda steps call these functions."""
        functions = [self._names.arn("lambda", f"function:{name}") for name in function_names]
        self.allow("CallFunctions", ["lambda:InvokeFunction"], on=functions)

    def allow_pass(self, roles: Sequence[iam.IRole]) -> None:
        """Let the pipeline hand exactly these roles to SageMaker."""
        self.allow(
            "HandJobsTheirRoles",
            ["iam:PassRole"],
            on=[role.role_arn for role in roles],
            when={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        )

    def allow_key(self, key: kms.IKey) -> None:
        """Let the pipeline use the key: it reads property files and starts jobs that encrypt with it."""
        self.allow("UseKey", ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"], on=[key.key_arn])
        self.allow("LendKeyToJobs", ["kms:CreateGrant"], on=[key.key_arn], when={"Bool": {"kms:GrantIsForAWSResource": "true"}})

    def _allow_model_and_endpoint(self) -> None:
        named = f"{self._names.pipeline}-*"
        self.allow(
            "CreateModel",
            ["sagemaker:AddTags", "sagemaker:CreateModel", "sagemaker:DescribeModel"],
            on=[self._names.arn("sagemaker", f"model/{_GENERATED}"), self._names.arn("sagemaker", f"model/{named}")],
            because="The model's name is made up by SageMaker, or starts with the pipeline's.",
        )
        self.allow(
            "CreateEndpoint",
            [
                "sagemaker:AddTags",
                "sagemaker:CreateEndpoint",
                "sagemaker:CreateEndpointConfig",
                "sagemaker:DescribeEndpoint",
                "sagemaker:DescribeEndpointConfig",
            ],
            on=[self._names.arn("sagemaker", f"{kind}/{named}") for kind in ("endpoint", "endpoint-config")],
            because="Endpoints and their configurations are named after the pipeline and the execution.",
        )

    def _allow_register(self) -> None:
        group = self._names.model_package_group
        package = self._names.arn("sagemaker", f"model-package/{group}/*")
        why = "SageMaker numbers the versions inside this environment's model package group."
        self.allow(
            "RegisterPendingOnly",
            ["sagemaker:CreateModelPackage"],
            on=[self._names.arn("sagemaker", f"model-package-group/{group}"), package],
            when={"StringEqualsIfExists": {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}},
            because=why,
        )
        self.allow("SeeModelPackages", ["sagemaker:AddTags", "sagemaker:DescribeModelPackage"], on=[package], because=why)
        self.allow(
            "SeeModelPackageGroup",
            ["sagemaker:DescribeModelPackageGroup"],
            on=[self._names.arn("sagemaker", f"model-package-group/{group}")],
        )

    def _allow_step_outputs(self) -> None:
        bucket = f"arn:aws:s3:::{self._names.bucket('artifacts')}"
        self.allow(
            "ReadStepOutputs",
            ["s3:GetObject"],
            on=[f"{bucket}/{prefix}/*" for prefix in ("evaluation", "training")],
            because="Each execution's evaluation.json and model.tar.gz lie below its own id.",
        )
