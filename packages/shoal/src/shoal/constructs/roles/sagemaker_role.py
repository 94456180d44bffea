"""A role for SageMaker that may log and measure, until more is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.roles.guard_rails import Place
from shoal.settings.names import Names

ATTACH = "ec2:CreateNetworkInterface"
USE_INTERFACE = (
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
)
_SEE_VPC = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
_ECR_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)"
)


class SageMakerRole(ActorRole):
    """Source: SageMaker developer guide, "SageMaker roles", the execution role permissions of
    each Create call.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        actor: str,
        log_group: str,
        source: str,
        description: str,
        streams: str = "*",
        endpoint: str = "",
    ) -> None:
        """`source` is the resource for which SageMaker acts, such as training-job/*; it logs to
        `log_group` below /aws/sagemaker/, and begins a stream's name with `streams`. An endpoint
        has a group of its own: `endpoint` is its name, or a pattern.
        """
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor=actor,
            service="sagemaker",
            description=description,
            source=names.arn("sagemaker", source),
        )
        self._names = names
        # SageMaker developer guide, "Log groups and streams that Amazon SageMaker AI sends to
        # Amazon CloudWatch Logs".
        group = f"log-group:/aws/sagemaker/{log_group}" + (f"/{endpoint}" if endpoint else "*")
        what = "streams" if endpoint else "groups and streams"
        why = f"SageMaker makes up the names of the {what} of {log_group}."
        self.allow(
            "WriteLogs",
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            on=[names.arn("logs", f"{group}:log-stream:{streams}")],
            because=why,
        )
        # A group's ARN is used with and without the end `:*` (CloudWatch Logs user guide,
        # "CloudWatch Logs resources and operations").
        ends = [""] if group.endswith("*") else ["", ":*"]
        self.allow(
            "MakeLogs",
            ["logs:CreateLogGroup", "logs:DescribeLogStreams"],
            on=[names.arn("logs", f"{group}{end}") for end in ends],
            because=why,
        )
        self.allow(
            "PutMetrics",
            ["cloudwatch:PutMetricData"],
            on=["*"],
            when={"StringLike": {"cloudwatch:namespace": f"/aws/sagemaker/{log_group}*"}},
            because="PutMetricData has no resource type in IAM; the condition names the namespace.",
        )

    def see_vpc(self) -> None:
        """Allow describing the VPC."""
        self.allow(
            "SeeVpc",
            _SEE_VPC,
            on=["*"],
            because="EC2 Describe actions have no resource type in IAM.",
        )

    def allow_pull(self, images: Iterable[str]) -> None:
        """Allow pulling `images`, and from no other repository. An image outside ECR needs no
        permission.
        """
        repositories = sorted({arn for arn in map(repository_arn, images) if arn})
        if repositories:
            self.allow(
                "PullImage",
                [
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                on=repositories,
            )
            self.allow(
                "LogInToEcr",
                ["ecr:GetAuthorizationToken"],
                on=["*"],
                because="GetAuthorizationToken has no resource type in IAM.",
            )

    def allow_volumes(self, key: kms.IKey) -> None:
        """Let AWS services use the key, by a grant, for the volumes of what it starts."""
        self.allow(
            "LendKeyToVolumes",
            ["kms:CreateGrant"],
            on=[key.key_arn],
            when={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        )

    def allow_interfaces(self, place: Place) -> None:
        """Allow creating network interfaces in this place only, and what follows on them.

        With `network.tie_interfaces` that is allowed in this place's VPC only. It is not the
        default: SageMaker checks the role before a job starts, and its guide lists these actions
        without conditions (and says for processing jobs that one makes the check fail).
        """
        # CreateNetworkInterface asks for the interface, the subnet and the groups. The interface
        # has no ec2:Vpc before it exists: with that condition no job could start. Subnets and
        # groups are named instead (service authorization reference, Amazon EC2).
        interfaces = self._names.arn("ec2", "network-interface/*")
        subnets = [self._names.arn("ec2", f"subnet/{subnet_id}") for subnet_id in place.subnet_ids]
        groups = [
            self._names.arn("ec2", f"security-group/{group_id}")
            for group_id in place.security_group_ids
        ]
        why = "SageMaker makes the network interfaces, so their ids are unknown."
        self.allow(
            "AttachToVpc",
            [ATTACH],
            on=[interfaces, *subnets, *groups],
            because=f"{why} Subnets and security groups are named.",
        )
        vpc = {"ArnEquals": {"ec2:Vpc": self._names.arn("ec2", f"vpc/{place.vpc.vpc_id}")}}
        tied = self._names.environment.network.tie_interfaces
        self.allow(
            "UseInterfaces",
            USE_INTERFACE,
            on=[interfaces],
            when=vpc if tied else None,
            because=f"{why} The condition names the VPC." if tied else why,
        )


def repository_arn(image: str) -> str | None:
    """Return the ARN of the ECR repository of an image URI such as
    `763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0`.
    """
    match = _ECR_IMAGE.match(image)
    return (
        f"arn:aws:ecr:{match['region']}:{match['account']}:repository/{match['repository']}"
        if match
        else None
    )
