"""The VPC in which EFA works, or a part of an existing one, with security groups and endpoints."""

from collections.abc import Sequence
from typing import TypeVar, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole, resource_policy
from shoal.constructs.roles.guard_rails import Place
from shoal.pipelines.checks import demand
from shoal.settings.external_data import every_external_folder
from shoal.settings.names import Names
from shoal.settings.sections.network import ExistingNetwork as Ids
from shoal.settings.sections.network import InterfaceEndpoint, Network


class SecurityGroups(Construct):
    """`training` (or the group that the settings name) and `hosting`.

    Our own groups let nothing in from outside themselves. Where the nodes of `several` workloads
    are in `training`, it does not let them in either: each workload has a group of its own too.

    Several workloads share the way out and to the file system. Among themselves only the nodes of
    one workload may talk, because ranks answer any request to their ports.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        settings: Network,
        several: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self._vpc, existing = vpc, settings.existing
        self.training: ec2.ISecurityGroup
        self._https = (
            "HTTPS to the internet and S3"
            if settings.nat or existing
            else "S3 through the gateway endpoint"
        )
        if existing and (group_id := existing.training_security_group_id):
            self.training = ec2.SecurityGroup.from_security_group_id(
                self, "Training", group_id, mutable=False
            )
        elif several:
            self.training = self._group("Training", "Training nodes of all workloads: HTTPS out")
        else:
            text = "Training nodes: everything among themselves, HTTPS out"
            self.training = self._group("Training", text)
            _allow_internally(self.training)
        self.hosting = self._group("Hosting", "Endpoint instances: HTTPS out")

    def _group(self, construct_id: str, description: str) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, construct_id, vpc=self._vpc, allow_all_outbound=False, description=description
        )
        # S3's addresses are public ones. Where there is no way to the internet, this reaches the
        # gateway endpoint and nothing else.
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), self._https)
        return group


def _allow_internally(group: ec2.SecurityGroup) -> None:
    """Let the members of the group send each other everything.

    EFA addresses are not IP addresses, so no CIDR rule covers them: both directions must name the
    group itself. With allow_all_outbound=True the CDK drops the egress half without a word.
    """
    group.connections.allow_internally(ec2.Port.all_traffic(), "EFA among the training nodes")


def own_training_place(scope: Construct, names: Names, shared: Place) -> Place:
    """Return where one workload trains: each of several has a security group of its own, unless
    the settings name one that exists.
    """
    existing = names.environment.network.existing
    if not names.environment.workloads or (existing and existing.training_security_group_id):
        return shared
    own = ec2.SecurityGroup(
        scope,
        "TrainingGroup",
        vpc=shared.vpc,
        allow_all_outbound=False,
        description="Training nodes of one workload: everything among themselves",
    )
    _allow_internally(own)
    return Place(shared.vpc, shared.subnets, [*shared.security_groups, own])


class ExistingNetwork(Construct):
    """`vpc`, `training_subnet` and `hosting_subnets` by their ids.

    Only AWS knows whether the subnets lie in the zones of the settings, reach S3 and have free
    addresses: `shoal.verbs.doctor.network_check` asks it.
    """

    def __init__(self, scope: Construct, construct_id: str, *, settings: Network, ids: Ids) -> None:
        super().__init__(scope, construct_id)
        az_ids = {settings.training_az_id, *settings.hosting_az_ids}
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=ids.vpc_id, availability_zones=sorted(az_ids)
        )
        self.training_subnet = self._subnet("Training", ids.training_subnet_id)
        self.hosting_subnets = [
            self._subnet(f"Hosting{number}", subnet)
            for number, subnet in enumerate(ids.hosting_subnet_ids, start=1)
        ]

    def _subnet(self, construct_id: str, subnet_id: str) -> ec2.ISubnet:
        subnet = ec2.Subnet.from_subnet_id(self, construct_id, subnet_id)
        # No route is added to it, so the id of its route table is not needed.
        cdk.Annotations.of(subnet).acknowledge_warning("@aws-cdk/aws-ec2:noSubnetRouteTableId")
        return subnet


class InterfaceEndpoints(Construct):
    """One endpoint for each service, all in `subnet`: other subnets reach it too, and each further
    zone would cost the same again.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        callers: Sequence[ec2.ISecurityGroup],
    ) -> None:
        super().__init__(scope, construct_id)
        group = ec2.SecurityGroup(
            self,
            "Endpoints",
            vpc=vpc,
            allow_all_outbound=False,
            description="Interface endpoints: HTTPS from our own instances",
        )
        for caller in callers:
            group.add_ingress_rule(caller, ec2.Port.tcp(443), "Calls from our own instances")
        for each in names.environment.interface_endpoints:
            endpoint = ec2.InterfaceVpcEndpoint(
                self,
                "".join(word.capitalize() for word in each.value.split(".")),
                vpc=vpc,
                service=ec2.InterfaceVpcEndpointService(
                    each.service_name(names.environment.region)
                ),
                subnets=ec2.SubnetSelection(subnets=[subnet]),
                security_groups=[group],
                private_dns_enabled=True,
                open=False,
            )
            for statement in resource_policy("own-account", names, iam.AnyPrincipal()):
                endpoint.add_to_policy(statement)


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
        anyone = iam.AnyPrincipal()
        buckets = [self._names.bucket(each) for each in ("data", "artifacts")]
        buckets.append(self._names.code_bucket)
        objects = [f"{bucket}{end}" for bucket in buckets for end in ("", "/*")]
        policy = resource_policy("own-buckets", self._names, anyone, objects=objects)
        if external := every_external_folder(self._names.environment):
            owners = sorted({each.account for each in external})
            folders = sorted({arn for each in external for arn in each.arns})
            part = "external-folders"
            policy += resource_policy(part, self._names, anyone, owners=owners, folders=folders)
        if InterfaceEndpoint.ECR_DOCKER in self._names.environment.network.interface_endpoints:
            policy += resource_policy("image-layers", self._names, anyone)
        for statement in policy:
            endpoint.add_to_policy(statement)

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
