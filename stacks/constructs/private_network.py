"""A VPC without internet: a CIDR block and availability zone ids go in; the training subnet, the hosting subnets, an S3 gateway
endpoint that reaches only our buckets, and flow logs come out."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from config.names import Names
from stacks.constructs.actor_role import ActorRole

_S3_ACTIONS = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetBucketLocation",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:PutObject",
)


class PrivateNetwork(Construct):
    """One training subnet in one availability zone (EFA cannot leave one), one hosting subnet per hosting zone."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        settings = names.environment.network
        # The default security group stays as AWS makes it: emptying it takes a custom resource, and nothing here uses it.
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(settings.cidr),
            subnet_configuration=[],
            nat_gateways=0,
            restrict_default_security_group=False,
        )
        training_cidr, *hosting_cidrs = subnet_cidrs(settings.cidr, hosting=len(settings.hosting_az_ids))
        self.training_subnet = self._subnet("Training", training_cidr, settings.training_az_id)
        self.hosting_subnets = [
            self._subnet(f"Hosting{number}", cidr, az_id)
            for number, (cidr, az_id) in enumerate(zip(hosting_cidrs, settings.hosting_az_ids, strict=True), start=1)
        ]
        self._add_s3_endpoint()
        self._add_flow_logs()

    def _subnet(self, subnet_id: str, cidr: str, az_id: str) -> ec2.PrivateSubnet:
        subnet = ec2.PrivateSubnet(self, subnet_id, vpc_id=self.vpc.vpc_id, cidr_block=cidr, availability_zone=az_id)
        # The L2 construct only knows zone names, which mean different places in different accounts.
        resource = cast(ec2.CfnSubnet, subnet.node.default_child)
        resource.add_property_deletion_override("AvailabilityZone")
        resource.add_property_override("AvailabilityZoneId", az_id)
        cdk.Tags.of(subnet).add("Name", f"{self._names.prefix}-{subnet_id.lower()}-{az_id}")
        return subnet

    def _add_s3_endpoint(self) -> None:
        endpoint = self.vpc.add_gateway_endpoint(
            "S3",
            service=ec2.GatewayVpcEndpointAwsService.S3,
            subnets=[ec2.SubnetSelection(subnets=[self.training_subnet, *self.hosting_subnets])],
        )
        endpoint.add_to_policy(
            iam.PolicyStatement(
                sid="OwnBucketsOnly",
                principals=[iam.AnyPrincipal()],
                actions=[*_S3_ACTIONS],
                resources=[arn for bucket in _reachable_buckets(self._names) for arn in _bucket_and_objects(bucket)],
                conditions={"StringEquals": {"aws:PrincipalAccount": self._names.environment.account}},
            )
        )

    def _add_flow_logs(self) -> None:
        group = logs.LogGroup(
            self,
            "FlowLogGroup",
            log_group_name=f"/shoal/{self._names.prefix}/flow-logs",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        role = ActorRole(
            self,
            "FlowLogRole",
            names=self._names,
            actor="flow-logs",
            service="vpc-flow-logs",
            description="Writes the VPC's flow logs.",
        )
        self.vpc.add_flow_log("FlowLogs", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group, role))


def subnet_cidrs(vpc_cidr: str, *, hosting: int) -> list[str]:
    """The first quarter of the VPC for training (a p5 node may take 32 addresses), then a sixteenth for each hosting subnet."""
    sixteenths = list(IPv4Network(vpc_cidr).subnets(prefixlen_diff=4))
    quarter = next(IPv4Network(vpc_cidr).subnets(prefixlen_diff=2))
    return [str(quarter), *[str(block) for block in sixteenths[4 : 4 + hosting]]]


def _bucket_and_objects(bucket: str) -> tuple[str, str]:
    return f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"


def _reachable_buckets(names: Names) -> list[str]:
    environment = names.environment
    return [names.bucket("data"), names.bucket("artifacts"), f"cdk-hnb659fds-assets-{environment.account}-{environment.region}"]
