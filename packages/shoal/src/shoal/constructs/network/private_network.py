"""The VPC: a training subnet, hosting subnets, an S3 gateway endpoint that reaches only our
buckets, and flow logs.

It has a way to the internet only if the settings ask for one.
"""

from __future__ import annotations

from typing import TypeVar, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole
from shoal.pipelines.checks import demand
from shoal.settings.external_data import every_external_folder
from shoal.settings.names import Names
from shoal.settings.sections.network import InterfaceEndpoint

_S3_ACTIONS = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetBucketLocation",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)
_OneSubnet = TypeVar("_OneSubnet", bound=ec2.Subnet)


class PrivateNetwork(Construct):
    """One training subnet in one availability zone, which EFA cannot leave, and one hosting subnet
    per hosting zone.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        settings = names.environment.network
        # The default security group stays as AWS makes it: emptying it takes a custom resource, and
        # nothing here uses it.
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(settings.cidr),
            subnet_configuration=[],
            nat_gateways=0,
            restrict_default_security_group=False,
        )
        ranges = demand.subnets(names.environment)
        self.training_subnet = self._private("Training", ranges.training, settings.training_az_id)
        self.hosting_subnets = [
            self._private(f"Hosting{number}", cidr, az_id)
            for number, (cidr, az_id) in enumerate(
                zip(ranges.hosting, settings.hosting_az_ids, strict=True), start=1
            )
        ]
        self._add_s3_endpoint()
        self._add_flow_logs()
        if settings.nat:
            self._add_internet_access(ranges.public, settings.training_az_id)

    def _private(self, subnet_id: str, cidr: str, az_id: str) -> ec2.PrivateSubnet:
        subnet = ec2.PrivateSubnet(
            self, subnet_id, vpc_id=self.vpc.vpc_id, cidr_block=cidr, availability_zone=az_id
        )
        return self._placed(subnet, subnet_id, az_id)

    def _placed(self, subnet: _OneSubnet, subnet_id: str, az_id: str) -> _OneSubnet:
        """Place the subnet by its zone's id.

        The L2 construct only knows zone names, which mean different places in different accounts.
        """
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
        # An instance in the VPC loads its archive through this endpoint (developer guide, "Give
        # SageMaker AI Hosted Endpoints Access to Resources in Your Amazon VPC").
        account = self._names.environment.account
        buckets = [
            f"arn:aws:s3:::{bucket}"
            for bucket in (
                self._names.bucket("data"),
                self._names.bucket("artifacts"),
                self._names.code_bucket,
            )
        ]
        endpoint.add_to_policy(
            iam.PolicyStatement(
                sid="OwnBucketsOnly",
                principals=[iam.AnyPrincipal()],
                actions=[*_S3_ACTIONS],
                resources=[arn for bucket in buckets for arn in (bucket, f"{bucket}/*")],
                conditions={"StringEquals": {"aws:PrincipalAccount": account}},
            )
        )
        if folders := every_external_folder(self._names.environment):
            owners = sorted({each.account for each in folders})
            accounts = {"aws:PrincipalAccount": account, "aws:ResourceAccount": owners}
            endpoint.add_to_policy(
                iam.PolicyStatement(
                    sid="ExternalFolders",
                    principals=[iam.AnyPrincipal()],
                    actions=["s3:GetObject", "s3:ListBucket"],
                    resources=sorted({arn for each in folders for arn in each.arns}),
                    conditions={"StringEquals": accounts},
                )
            )
        if InterfaceEndpoint.ECR_DOCKER in self._names.environment.network.interface_endpoints:
            # ECR keeps layers in its own bucket and hands out signed URLs, so the caller is not of
            # this account. Source: Amazon ECR user guide, "Amazon ECR interface VPC endpoints",
            # minimum Amazon S3 bucket permissions.
            layers = f"prod-{self._names.environment.region}-starport-layer-bucket"
            endpoint.add_to_policy(
                iam.PolicyStatement(
                    sid="ImageLayers",
                    principals=[iam.AnyPrincipal()],
                    actions=["s3:GetObject"],
                    resources=[f"arn:aws:s3:::{layers}/*"],
                )
            )

    def _add_internet_access(self, cidr: str, az_id: str) -> None:
        """Let the private subnets open connections to the internet, through one NAT gateway in a
        public subnet that holds nothing else. Nothing can connect inwards.

        More than one zone is behind it: if its zone fails, the others lose the internet, which none
        of our own traffic needs.
        """
        public = ec2.PublicSubnet(
            self,
            "Public",
            vpc_id=self.vpc.vpc_id,
            cidr_block=cidr,
            availability_zone=az_id,
            map_public_ip_on_launch=False,
        )
        self._placed(public, "Public", az_id)
        scope = Construct(self, "Internet")
        gateway = ec2.CfnInternetGateway(scope, "InternetGateway")
        attachment = ec2.CfnVPCGatewayAttachment(
            scope, "Attachment", vpc_id=self.vpc.vpc_id, internet_gateway_id=gateway.ref
        )
        public.add_default_internet_route(gateway.ref, attachment)
        nat = public.add_nat_gateway()
        for subnet in (self.training_subnet, *self.hosting_subnets):
            subnet.add_default_nat_route(nat.ref)

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
            source=self._names.arn("ec2", "vpc-flow-log/*"),
        )
        self.vpc.add_flow_log(
            "FlowLogs", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group, role)
        )
