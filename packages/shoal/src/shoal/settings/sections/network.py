"""The section `network` of an environment file: a VPC to be made, or one that is there already.

The address range of a new VPC is cut into training, hosting and public subnets:

    first quarter | second quarter: hosting, at its end public | second half

Training gets the first quarter, or the second half when it needs more. So a larger training subnet
overlaps nothing that exists. CloudFormation makes the new subnet before it deletes the old one, and
can therefore replace it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import Field

from shoal.settings.parsing.base import AzId, Settings
from shoal.settings.parsing.errors import Problem, repeated
from shoal.settings.regions import az_id_prefixes

VpcId = Annotated[str, Field(pattern=r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$")]
SubnetId = Annotated[str, Field(pattern=r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$")]
SecurityGroupId = Annotated[str, Field(pattern=r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$")]

AWS_RESERVES = 5  # addresses of every subnet. Amazon VPC user guide, "Subnet CIDR blocks"
_SIXTEENTHS_BEFORE_HOSTING = 4
_PUBLIC_PREFIX = 28  # the smallest there is; a NAT gateway takes one address
# RFC 1918
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_SUBNETS = "network.existing.hosting_subnet_ids"


class InterfaceEndpoint(StrEnum):
    """AWS services that code inside the VPC can call through an interface endpoint.

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
    CODEARTIFACT = "codeartifact.api"
    CODEARTIFACT_REPOSITORIES = "codeartifact.repositories"
    EXPERIMENTS = "sagemaker.experiments"  # MLflow tracking servers

    def service_name(self, region: str) -> str:
        """Return the name of the endpoint service in `region`."""
        if self is InterfaceEndpoint.EXPERIMENTS:
            return f"aws.sagemaker.{region}.experiments"
        return f"com.amazonaws.{region}.{self.value}"


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

    cidr: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+\.\d+/(1[6-9]|20)$")] = "10.20.0.0/16"
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

    @property
    def has_way(self) -> bool:
        """Whether what runs there may reach services without an endpoint in it."""
        return self.nat or self.existing is not None


@dataclass(frozen=True)
class Subnets:
    """Address ranges of one VPC's subnets."""

    training: str
    hosting: tuple[str, ...]
    public: str


def usable(cidr: str) -> int:
    """Return how many addresses of a subnet network interfaces can have."""
    return IPv4Network(cidr).num_addresses - AWS_RESERVES


def divide(cidr: str, *, hosting: int, training_addresses: int) -> Subnets:
    """Cut the range `cidr` into subnets.

    `hosting` is the number of subnets for endpoints. The training subnet has room for
    `training_addresses`, if there is any.
    """
    vpc = IPv4Network(cidr)
    sixteenths = list(vpc.subnets(prefixlen_diff=4))
    ranges = training_ranges(cidr)
    training = next((part for part in ranges if usable(part) >= training_addresses), ranges[-1])
    hosts = sixteenths[_SIXTEENTHS_BEFORE_HOSTING : _SIXTEENTHS_BEFORE_HOSTING + hosting]
    public = list(sixteenths[_SIXTEENTHS_BEFORE_HOSTING + 3].subnets(new_prefix=_PUBLIC_PREFIX))[-1]
    return Subnets(training, tuple(map(str, hosts)), str(public))


def training_ranges(cidr: str) -> tuple[str, str]:
    """Return the two ranges that the training subnet can have, the smaller one first."""
    quarter = next(IPv4Network(cidr).subnets(prefixlen_diff=2))
    half = list(IPv4Network(cidr).subnets(prefixlen_diff=1))[1]
    return str(quarter), str(half)


def problems(network: Network, region: str) -> Iterator[Problem]:
    """Yield what is wrong with the section of an environment in `region`."""
    yield from _zones(network, region)
    key, advice = "network.cidr", "use one inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
    try:
        addresses = IPv4Network(network.cidr)
        if not any(addresses.subnet_of(private) for private in _PRIVATE):
            yield Problem(key, "is not a private range", advice)
    except ValueError as error:
        yield Problem(key, f"is not an address range: {error}", "write it as in 10.20.0.0/16")
    for message in repeated(network.interface_endpoints):
        yield Problem("network.interface_endpoints", message, "name each service once")
    yield from _existing(network)


def _zones(network: Network, region: str) -> Iterator[Problem]:
    prefixes, hosting = az_id_prefixes(), "network.hosting_az_ids"
    prefix, places = prefixes.get(region), {known: each for each, known in prefixes.items()}
    zones = {"network.training_az_id": network.training_az_id}
    zones |= {f"{hosting}[{index}]": zone for index, zone in enumerate(network.hosting_az_ids)}
    for key, zone in zones.items():
        if prefix and (known := zone.split("-")[0]) != prefix:
            place = places.get(known, "no region this project knows")
            message = f"lies in {place}, not in {region}"
            advice = f"use an id that starts with {prefix}-az"
            yield Problem(key, message, advice, related=("region",))
    for message in repeated(network.hosting_az_ids):
        advice = "name two or three different zones"
        yield Problem(hosting, f"{message}; the zones must differ", advice)


def _existing(network: Network) -> Iterator[Problem]:
    """Check an existing VPC without AWS; `shoal.verbs.doctor.network_check` asks AWS."""
    existing = network.existing
    if existing is None:
        return
    for name in sorted({"cidr", "interface_endpoints", "nat"} & network.model_fields_set):
        message = "is only read for a VPC that is made"
        advice = "remove it; what an existing VPC has belongs to its owner"
        yield Problem(f"network.{name}", message, advice, related=("network.existing",))
    subnets, zones = existing.hosting_subnet_ids, network.hosting_az_ids
    for message in repeated(subnets):
        yield Problem(_SUBNETS, f"{message}; the subnets must differ", "name each subnet once")
    related = ("network.hosting_az_ids", "network.training_az_id")
    if len(subnets) != len(zones):
        message = f"has {len(subnets)} entries, and network.hosting_az_ids has {len(zones)}"
        advice = "give one subnet for each zone, in the same order"
        yield Problem(_SUBNETS, message, advice, related=related[:1])
        return
    for subnet, zone in zip(subnets, zones, strict=True):
        if subnet == existing.training_subnet_id and zone != network.training_az_id:
            message = (
                f"puts the training subnet into {zone}, and network.training_az_id into"
                f" {network.training_az_id}"
            )
            advice = "give the zone in which the subnet lies"
            yield Problem(_SUBNETS, message, advice, subnet, related)
