"""Names, job roles, network and key go in; the role under which the SageMaker pipeline starts its steps comes out.

It may start jobs only in our subnets with our roles, register models only as pending approval, and touch only names that this
pipeline gives. Source: SageMaker developer guide, "Define a pipeline: IAM access", and the service authorization reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.names import Names
from stacks.constructs.actor_role import ActorRole
from stacks.constructs.job_roles import repository_arn

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
        self._allow_register()
        self._allow_step_outputs()

    def allow_jobs(self, subnets: Sequence[ec2.ISubnet], security_groups: Sequence[ec2.ISecurityGroup]) -> None:
        """Let the pipeline run training and processing jobs, but only in these subnets with these security groups."""
        inside = _inside(subnets, security_groups)
        for kind in ("Training", "Processing"):
            on = [self._names.arn("sagemaker", f"{kind.lower()}-job/{_GENERATED}")]
            why = f"SageMaker makes up the {kind.lower()} job's name; this is the documented prefix of pipeline steps."
            actions = [f"sagemaker:{verb}{kind}Job" for verb in ("Describe", "Stop")]
            self.allow(f"Start{kind}", [f"sagemaker:Create{kind}Job"], on=on, when=inside, because=why)
            self.allow(f"Follow{kind}", ["sagemaker:AddTags", *actions], on=on, because=why)

    def allow_hosting(self, subnets: Sequence[ec2.ISubnet], security_groups: Sequence[ec2.ISecurityGroup]) -> None:
        """Let the pipeline create models in these subnets with these security groups, and endpoints from them."""
        named = f"{self._names.pipeline}-*"
        models = [self._names.arn("sagemaker", f"model/{prefix}") for prefix in (_GENERATED, named)]
        why = "The model's name is made up by SageMaker, or starts with the pipeline's."
        self.allow("CreateModel", ["sagemaker:CreateModel"], on=models, when=_inside(subnets, security_groups), because=why)
        self.allow("SeeModel", ["sagemaker:AddTags", "sagemaker:DescribeModel"], on=models, because=why)
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

    def allow_registered(self, images: Iterable[str]) -> None:
        """Let the pipeline look up `images`: the registry keeps the digest of a model package's image (AWS managed policy
        AmazonSageMakerModelRegistryFullAccess)."""
        repositories = sorted({arn for arn in map(repository_arn, images) if arn})
        if repositories:
            self.allow("LookUpImages", ["ecr:BatchGetImage", "ecr:DescribeImages"], on=repositories)

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


def _inside(subnets: Sequence[ec2.ISubnet], security_groups: Sequence[ec2.ISecurityGroup]) -> dict[str, dict[str, Any]]:
    # ForAllValues alone also holds when a request has no VPC at all; Null closes that.
    return {
        "ForAllValues:StringEquals": {
            "sagemaker:VpcSubnets": [subnet.subnet_id for subnet in subnets],
            "sagemaker:VpcSecurityGroupIds": [group.security_group_id for group in security_groups],
        },
        "Null": {"sagemaker:VpcSubnets": "false", "sagemaker:VpcSecurityGroupIds": "false"},
    }
