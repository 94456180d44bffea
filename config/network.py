"""The section `network` of an environment file: a VPC to be made, or one that is there already."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from config.base import AzId, Settings

VpcId = Annotated[str, StringConstraints(pattern=r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$")]
SubnetId = Annotated[str, StringConstraints(pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$")]
SecurityGroupId = Annotated[str, StringConstraints(pattern=r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$")]


class InterfaceEndpoint(StrEnum):
    """AWS services that code inside the VPC can call through an interface endpoint;
    `com.amazonaws.<region>.<value>`.

    Source: AWS PrivateLink guide, "AWS services that integrate with AWS PrivateLink"; the CDK's
    InterfaceVpcEndpointAwsService.
    """

    SAGEMAKER_API = "sagemaker.api"
    SAGEMAKER_RUNTIME = "sagemaker.runtime"
    STS = "sts"
    KMS = "kms"
    LOGS = "logs"
    MONITORING = "monitoring"
    SECRETS_MANAGER = "secretsmanager"
    SSM = "ssm"
    SSM_MESSAGES = "ssmmessages"
    EC2_MESSAGES = "ec2messages"
    ECR_API = "ecr.api"
    ECR_DOCKER = "ecr.dkr"
    FSX = "fsx"
    EVENTS = "events"
    SNS = "sns"
    SQS = "sqs"
    STEP_FUNCTIONS = "states"


class ExistingNetwork(Settings):
    """A VPC of yours instead of a new one.

    `network.training_az_id` and `hosting_az_ids` say where its subnets lie.
    """

    vpc_id: VpcId
    """Id of the VPC; default tenancy."""
    training_subnet_id: SubnetId
    """Id of the one subnet of training nodes, in training_az_id, with a route to S3 (gateway
    endpoint).
    """
    hosting_subnet_ids: Annotated[tuple[SubnetId, ...], Field(min_length=2, max_length=3)]
    """Ids of the endpoint subnets, one for each of hosting_az_ids in the same order."""
    training_security_group_id: SecurityGroupId | None = None
    """Security group of training nodes; it must allow all traffic to and from itself (EFA).

    Left out, one is made.
    """


class Network(Settings):
    """The VPC.

    Training runs in one subnet in one availability zone, because EFA traffic cannot leave one.
    """

    cidr: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+\.\d+/(1[6-9]|20)$")] = (
        "10.20.0.0/16"
    )
    """Address range of the VPC, /16 to /20; a quarter or a half of it is for training nodes."""
    training_az_id: AzId = "use1-az4"
    """Availability zone *id* (not name: names differ between accounts) of the training subnet."""
    hosting_az_ids: Annotated[tuple[AzId, ...], Field(min_length=2, max_length=3)] = (
        "use1-az1",
        "use1-az2",
    )
    """Availability zone ids of the endpoint subnets, at least two; training's may be one of them.
    """
    interface_endpoints: tuple[InterfaceEndpoint, ...] = ()
    """Services that *your* code inside the VPC calls, as in sagemaker.api.

    Shoal's own need none; each costs money all the time.
    """
    nat: bool = False
    """Let what runs in the VPC open HTTPS connections to the internet, through a NAT gateway.

    It costs money all the time.
    """
    tie_interfaces: bool = False
    """Let training and endpoints use and delete network interfaces of this VPC only (`ec2:Vpc`).

    AWS documents no condition there, and refuses one for processing jobs: try it with a cheap job.
    """
    existing: ExistingNetwork | None = None
    """Ids of a VPC and its subnets to use instead of making them."""
