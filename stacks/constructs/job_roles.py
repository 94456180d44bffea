"""Names, the key and places in the VPC go in; the roles under which SageMaker runs training, evaluation and the endpoint come out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.names import Names
from stacks.constructs.actor_role import ActorRole

_INTERFACE_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
)
_DESCRIBE_ACTIONS = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcEndpoints",
    "ec2:DescribeVpcs",
)
_ECR_IMAGE = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)")


@dataclass(frozen=True)
class Place:
    """Where a job's network interfaces are."""

    subnets: Sequence[ec2.ISubnet]
    security_groups: Sequence[ec2.ISecurityGroup]


class JobRoles(Construct):
    """`training`, `evaluation` and `endpoint`: each reads its inputs and writes its outputs, and nothing else.

    Source: SageMaker developer guide, "SageMaker roles", the execution role permissions of each Create call.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        key: kms.IKey,
        training: Place,
        hosting: Place,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._key = key
        self.training = self._role("training", "Runs training jobs.", log_group="TrainingJobs")
        self.evaluation = self._role("evaluation", "Runs evaluation jobs.", log_group="ProcessingJobs")
        self.endpoint = self._role("endpoint", "Runs the temporary endpoint.", log_group="Endpoints")
        self._allow_interfaces(self.training, training)
        self._allow_interfaces_anywhere(self.evaluation)
        self._allow_interfaces(self.endpoint, hosting)
        self._read(self.training, {"data": "datasets", "artifacts": "checkpoints"})
        self._write(self.training, ["training", "checkpoints"])
        # TensorFlow's training toolkit asks where the bucket of the hyperparameter `model_dir` lies, before it starts anything.
        self.training.allow("LocateArtifacts", ["s3:GetBucketLocation"], on=[f"arn:aws:s3:::{names.bucket('artifacts')}"])
        self._read_code(self.training)
        self._read(self.evaluation, {"data": "datasets", "artifacts": "training"})
        self._write(self.evaluation, ["evaluation"])
        self._read_code(self.evaluation)
        self._read(self.endpoint, {"artifacts": "training"})

    def allow_pull(self, role: ActorRole, images: Iterable[str]) -> None:
        """Let `role` pull `images`, and no other repository. An image outside ECR needs no permission."""
        repositories = sorted({arn for arn in map(repository_arn, images) if arn})
        if repositories:
            role.allow("PullImage", ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"], on=repositories)
            role.allow("LogInToEcr", ["ecr:GetAuthorizationToken"], on=["*"], because="GetAuthorizationToken has no resource type in IAM.")

    def _role(self, actor: str, description: str, *, log_group: str) -> ActorRole:
        role = ActorRole(self, actor.capitalize(), names=self._names, actor=actor, service="sagemaker", description=description)
        role.allow(
            "WriteLogs",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            on=[self._names.arn("logs", f"log-group:/aws/sagemaker/{log_group}*")],
            because=f"SageMaker makes up the names of the groups and streams of {log_group}.",
        )
        role.allow(
            "PutMetrics",
            ["cloudwatch:PutMetricData"],
            on=["*"],
            when={"StringLike": {"cloudwatch:namespace": f"/aws/sagemaker/{log_group}*"}},
            because="PutMetricData has no resource type in IAM; the condition names the namespace.",
        )
        role.allow("SeeVpc", _DESCRIBE_ACTIONS, on=["*"], because="EC2 Describe actions have no resource type in IAM.")
        role.allow("UseKey", ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"], on=[self._key.key_arn])
        role.allow(
            "LendKeyToVolumes",
            ["kms:CreateGrant"],
            on=[self._key.key_arn],
            when={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        )
        return role

    def _allow_interfaces(self, role: ActorRole, place: Place) -> None:
        # CreateNetworkInterface asks for the interface, the subnet and the groups. A condition on ec2:Vpc would fit the latter two
        # only: the interface has no such key before it exists (service authorization reference, Amazon EC2).
        subnets = [self._names.arn("ec2", f"subnet/{subnet.subnet_id}") for subnet in place.subnets]
        groups = [self._names.arn("ec2", f"security-group/{group.security_group_id}") for group in place.security_groups]
        role.allow(
            "AttachToVpc",
            _INTERFACE_ACTIONS,
            on=[self._names.arn("ec2", "network-interface/*"), *subnets, *groups],
            because="SageMaker makes the network interfaces, so their ids are unknown; subnets and security groups are named.",
        )

    def _allow_interfaces_anywhere(self, role: ActorRole) -> None:
        # SageMaker developer guide, "CreateProcessingJob API: Execution Role Permissions": "Don't scope in the policy with any
        # conditions or resource filters. Otherwise, the validation checks that occur during the creation of the processing job fail."
        role.allow("AttachToVpc", _INTERFACE_ACTIONS, on=["*"], because="AWS refuses a processing job whose role names resources here.")

    def _read(self, role: ActorRole, prefixes: dict[str, str]) -> None:
        for purpose, prefix in prefixes.items():
            bucket = f"arn:aws:s3:::{self._names.bucket(purpose)}"
            role.allow(
                f"List{purpose.capitalize()}",
                ["s3:ListBucket"],
                on=[bucket],
                when={"StringLike": {"s3:prefix": f"{prefix}/*"}},
            )
            role.allow(
                f"Read{purpose.capitalize()}",
                ["s3:GetObject"],
                on=[f"{bucket}/{prefix}/*"],
                because=f"The job reads every object below {prefix}/.",
            )

    def _write(self, role: ActorRole, prefixes: list[str]) -> None:
        bucket = f"arn:aws:s3:::{self._names.bucket('artifacts')}"
        for prefix in prefixes:
            role.allow(
                f"Write{prefix.capitalize()}",
                ["s3:AbortMultipartUpload", "s3:PutObject"],
                on=[f"{bucket}/{prefix}/*"],
                because=f"Every execution writes below its own id in {prefix}/.",
            )

    def _read_code(self, role: ActorRole) -> None:
        environment = self._names.environment
        bucket = f"arn:aws:s3:::cdk-hnb659fds-assets-{environment.account}-{environment.region}"
        role.allow("ListCode", ["s3:ListBucket"], on=[bucket], when={"StringLike": {"s3:prefix": "*.gz"}})
        role.allow(
            "ReadCode",
            ["s3:GetObject"],
            on=[f"{bucket}/*.gz"],
            because="Code archives are named by their content; parameter CodeUri chooses one, so that an older one can be run again.",
        )


def repository_arn(image: str) -> str | None:
    """ARN of the ECR repository of an image URI such as `763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0`."""
    match = _ECR_IMAGE.match(image)
    return f"arn:aws:ecr:{match['region']}:{match['account']}:repository/{match['repository']}" if match else None
