"""Check an environment's network against AWS before money is spent.

For a new VPC: does the account have its availability zones? For an existing one: do its subnets lie
in those zones, have free addresses and reach S3, and does its security group let EFA work?
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.target import Target
from shoal.errors import error_code
from shoal.pipelines.checks.demand import addresses
from shoal.settings.loading.loader import environment_file
from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.sections.network import ExistingNetwork
from shoal.settings.settings import Environment
from shoal.verbs.doctor import Mistake

HTTPS = 443
_DESCRIBE = {
    "VPC": ("describe_vpcs", "VpcIds", "Vpcs"),
    "subnet": ("describe_subnets", "SubnetIds", "Subnets"),
    "security group": ("describe_security_groups", "GroupIds", "SecurityGroups"),
}
Item = Mapping[str, Any]
"""What EC2 returns of one VPC, subnet, route table, group or rule."""


def check_network(
    target: Target, environment: Environment, *, with_addresses: bool = True
) -> list[Problem]:
    """Return every reason why training or hosting could not work in the environment's network,
    `with_addresses` also that too few are free.

    Changes nothing.
    """
    ec2 = target.client("ec2")
    existing, endpoint = environment.network.existing, environment.endpoint
    if existing is None:
        return list(_zones(ec2, environment))
    hosting = 2 * endpoint.instance_count if endpoint else 0
    needed = (addresses(environment).min, hosting) if with_addresses else (0, 0)
    return list(_Existing(ec2, environment, existing, *needed).problems())


def require_fit(
    target: Target, environment: Environment, places: Mapping[str, str] | None = None
) -> str:
    """Raise ConfigError if a deployment into an existing VPC cannot work.

    `places` says where each key stands in the file. Free addresses are not counted, because running
    jobs use some. Returns a notice if the questions are not allowed, else an empty text.
    """
    if environment.network.existing is None:
        return ""
    try:
        problems = check_network(target, environment, with_addresses=False)
    except ClientError as error:
        if error_code(error) != "UnauthorizedOperation":
            raise
        return (
            f"whether {environment.network.existing.vpc_id} fits was not checked:"
            f" {error.operation_name} is not allowed"
        )
    if problems:
        raise ConfigError(environment_file(environment.name), problems, places)
    return ""


def _zones(ec2: Any, environment: Environment) -> Iterator[Problem]:
    network = environment.network
    available = {zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}
    zones = {"network.training_az_id": network.training_az_id} | {
        f"network.hosting_az_ids[{index}]": zone
        for index, zone in enumerate(network.hosting_az_ids)
    }
    message = f"is not a zone that account {environment.account} has in {environment.region}"
    for key, zone in zones.items():
        if zone not in available:
            yield Problem(key, message, f"use one of {', '.join(sorted(available))}", zone)


@dataclass(frozen=True)
class _Existing:
    """The questions about one existing VPC."""

    ec2: Any
    environment: Environment
    ids: ExistingNetwork
    training_addresses: int
    hosting_addresses: int
    """Of each hosting subnet, the number that must be free."""

    def problems(self) -> Iterator[Problem]:
        ids, network = self.ids, self.environment.network
        yield from self._one("VPC", "vpc_id", ids.vpc_id, _vpc_mistakes)
        training = (ids.training_subnet_id, network.training_az_id)
        subnets = [("training_subnet_id", *training, self.training_addresses)]
        hosting = zip(ids.hosting_subnet_ids, network.hosting_az_ids, strict=True)
        for index, each in enumerate(hosting):
            subnets.append((f"hosting_subnet_ids[{index}]", *each, self.hosting_addresses))
        for key, subnet_id, zone, needed in subnets:
            mistakes = partial(self._subnet_mistakes, zone=zone, needed=needed)
            yield from self._one("subnet", key, subnet_id, mistakes)
        if group_id := ids.training_security_group_id:
            key = "training_security_group_id"
            yield from self._one("security group", key, group_id, self._group_mistakes)

    def _one(
        self, kind: str, key: str, identifier: str, mistakes: Callable[[Item], Iterator[Mistake]]
    ) -> Iterator[Problem]:
        """Yield the problems of the item with this id, or that EC2 does not know it."""
        operation, parameter, items_key = _DESCRIBE[kind]
        try:
            items = getattr(self.ec2, operation)(**{parameter: [identifier]})[items_key]
        except ClientError as error:
            if not error_code(error).endswith((".NotFound", ".Malformed")):
                raise
            items = []
        account, region = self.environment.account, self.environment.region
        absent = (
            f"is no {kind} of account {account} in {region}",
            f"give the id of a {kind} that is there",
        )
        for message, advice in mistakes(items[0]) if items else [absent]:
            yield Problem(f"network.existing.{key}", message, advice, identifier)

    def _subnet_mistakes(self, subnet: Item, *, zone: str, needed: int) -> Iterator[Mistake]:
        if subnet["VpcId"] != self.ids.vpc_id:
            message = f"lies in {subnet['VpcId']}, not in {self.ids.vpc_id}"
            yield message, "use a subnet of the VPC"
            return
        if subnet["AvailabilityZoneId"] != zone:
            message = f"lies in {subnet['AvailabilityZoneId']}, and the settings say {zone}"
            yield message, "name the zone in which it lies, or another subnet"
        if (free := subnet["AvailableIpAddressCount"]) < needed:
            message = f"has {free} free addresses, and {needed} are needed"
            yield message, "use a larger subnet or fewer instances"
        table, service = self._route_table(subnet), f"com.amazonaws.{self.environment.region}.s3"
        filters = _filters(vpc_id=self.ids.vpc_id, service_name=service)
        endpoints = self.ec2.describe_vpc_endpoints(Filters=filters)["VpcEndpoints"]
        is_served = any(_serves(endpoint, table["RouteTableId"]) for endpoint in endpoints)
        if not is_served and not _leads_out(table):
            yield (
                "has no way to S3: no endpoint for it, and no default route in"
                f" {table['RouteTableId']}",
                f"add that route table to a gateway endpoint for {service}",
            )

    def _route_table(self, subnet: Item) -> Item:
        """Return the subnet's own route table, or the VPC's main one."""
        own = _filters(association__subnet_id=subnet["SubnetId"])
        main = _filters(vpc_id=self.ids.vpc_id, association__main="true")
        tables: list[Item] = []
        for filters in (own, main):
            tables = tables or self.ec2.describe_route_tables(Filters=filters)["RouteTables"]
        return tables[0]

    def _group_mistakes(self, group: Item) -> Iterator[Mistake]:
        group_id, inbound, outbound = (
            group[key] for key in ("GroupId", "IpPermissions", "IpPermissionsEgress")
        )
        if group["VpcId"] != self.ids.vpc_id:
            message = f"belongs to {group['VpcId']}, not to {self.ids.vpc_id}"
            yield message, "use a group of the VPC"
        for direction, rules in (("inbound", inbound), ("outbound", outbound)):
            if not any(_is_everything_with(rule, group_id) for rule in rules):
                yield (
                    f"has no {direction} rule for all traffic that names the group itself;"
                    " 0.0.0.0/0 does not cover EFA",
                    f"add one: protocol -1, {direction}, peer {group_id}",
                )
        if not any(map(_lets_https_out, outbound)):
            yield f"lets no HTTPS ({HTTPS}) out, and S3 is reached by it", f"allow TCP {HTTPS} out"


def _vpc_mistakes(vpc: Item) -> Iterator[Mistake]:
    if (tenancy := vpc.get("InstanceTenancy")) != "default":
        message = f"has the tenancy {tenancy}, and SageMaker needs default"
        yield message, "use a VPC with default tenancy"


def _filters(**values: str) -> list[dict[str, Any]]:
    """Return EC2 filters: `vpc_id=` becomes vpc-id, `association__main=` association.main."""
    return [
        {"Name": name.replace("__", ".").replace("_", "-"), "Values": [value]}
        for name, value in values.items()
    ]


def _serves(endpoint: Item, table_id: str) -> bool:
    """Return whether an endpoint serves a route table.

    A gateway endpoint serves by route tables, an interface endpoint with private names the whole
    VPC.
    """
    return table_id in endpoint.get("RouteTableIds", ()) or bool(
        endpoint.get("SubnetIds") and endpoint.get("PrivateDnsEnabled")
    )


def _leads_out(table: Item) -> bool:
    """Return whether a route table has a way out, such as a NAT or transit gateway.

    An internet gateway is none: SageMaker's interfaces have no public address.
    """
    routes = [
        route
        for route in table["Routes"]
        if route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State") != "blackhole"
    ]
    return any(not str(route.get("GatewayId", "")).startswith("igw-") for route in routes)


def _is_everything_with(rule: Item, group_id: str) -> bool:
    return rule["IpProtocol"] == "-1" and any(
        pair.get("GroupId") == group_id for pair in rule.get("UserIdGroupPairs", ())
    )


def _lets_https_out(rule: Item) -> bool:
    reaches = bool(rule.get("PrefixListIds")) or any(
        part.get("CidrIp") == "0.0.0.0/0" for part in rule.get("IpRanges", ())
    )
    covers = rule["IpProtocol"] == "-1" or (
        rule["IpProtocol"] == "tcp"
        and rule.get("FromPort", 0) <= HTTPS <= rule.get("ToPort", 65535)
    )
    return reaches and covers
