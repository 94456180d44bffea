"""Check an environment's network against AWS before money is spent.

For a new VPC: does the account have its availability zones? For an existing one: do its subnets lie
in those zones, have free addresses and reach S3, and does its security group let EFA work?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.target import Target
from shoal.settings.loading.loader import environment_file
from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.sections.network import ExistingNetwork
from shoal.settings.settings import Environment

HTTPS = 443
_SECTION = "network.existing"
Permission = Mapping[str, Any]
"""An entry of IpPermissions or IpPermissionsEgress, as DescribeSecurityGroups returns it."""


@dataclass(frozen=True)
class Demand:
    """The number of free addresses that the subnets must have."""

    training: int
    hosting: int
    """In each hosting subnet."""


def check_network(target: Target, environment: Environment, demand: Demand) -> list[Problem]:
    """Return every reason why training or hosting could not work in the environment's network.

    Changes nothing.
    """
    ec2 = target.client("ec2")
    if environment.network.existing is None:
        return list(_zones(ec2, environment))
    return list(_Existing(ec2, environment, environment.network.existing, demand).problems())


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
        problems = check_network(target, environment, Demand(training=0, hosting=0))
    except ClientError as error:
        if error.response["Error"]["Code"] != "UnauthorizedOperation":
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
    zones = {"network.training_az_id": network.training_az_id}
    zones |= {
        f"network.hosting_az_ids[{index}]": zone
        for index, zone in enumerate(network.hosting_az_ids)
    }
    for key, zone in zones.items():
        if zone not in available:
            message = (
                f"is not a zone that account {environment.account} has in {environment.region}"
            )
            yield Problem(key, message, f"use one of {', '.join(sorted(available))}", zone)


@dataclass(frozen=True)
class _Existing:
    """The questions about one existing VPC."""

    ec2: Any
    environment: Environment
    ids: ExistingNetwork
    demand: Demand

    def problems(self) -> Iterator[Problem]:
        yield from self._vpc()
        yield from self._subnets()
        if self.ids.training_security_group_id:
            yield from self._security_group(self.ids.training_security_group_id)

    def _vpc(self) -> Iterator[Problem]:
        key, vpc = (
            f"{_SECTION}.vpc_id",
            _one(lambda: self.ec2.describe_vpcs(VpcIds=[self.ids.vpc_id])["Vpcs"]),
        )
        if vpc is None:
            yield _absent(key, self.ids.vpc_id, "VPC", self.environment)
        elif vpc.get("InstanceTenancy") != "default":
            message = f"has the tenancy {vpc.get('InstanceTenancy')}, and SageMaker needs default"
            yield Problem(key, message, "use a VPC with default tenancy", self.ids.vpc_id)

    def _subnets(self) -> Iterator[Problem]:
        network = self.environment.network
        training = f"{_SECTION}.training_subnet_id"
        yield from self._subnet(
            training, self.ids.training_subnet_id, network.training_az_id, self.demand.training
        )
        for index, (subnet_id, zone) in enumerate(
            zip(self.ids.hosting_subnet_ids, network.hosting_az_ids, strict=True)
        ):
            yield from self._subnet(
                f"{_SECTION}.hosting_subnet_ids[{index}]", subnet_id, zone, self.demand.hosting
            )

    def _subnet(self, key: str, subnet_id: str, zone: str, addresses: int) -> Iterator[Problem]:
        subnet = _one(lambda: self.ec2.describe_subnets(SubnetIds=[subnet_id])["Subnets"])
        if subnet is None:
            yield _absent(key, subnet_id, "subnet", self.environment)
            return
        if subnet["VpcId"] != self.ids.vpc_id:
            yield Problem(
                key,
                f"lies in {subnet['VpcId']}, not in {self.ids.vpc_id}",
                "use a subnet of the VPC",
                subnet_id,
            )
            return
        if subnet["AvailabilityZoneId"] != zone:
            message = f"lies in {subnet['AvailabilityZoneId']}, and the settings say {zone}"
            yield Problem(
                key, message, "name the zone in which it lies, or another subnet", subnet_id
            )
        if subnet["AvailableIpAddressCount"] < addresses:
            message = (
                f"has {subnet['AvailableIpAddressCount']} free addresses, and {addresses} are"
                " needed"
            )
            yield Problem(key, message, "use a larger subnet or fewer instances", subnet_id)
        yield from self._way_to_s3(key, subnet_id)

    def _way_to_s3(self, key: str, subnet_id: str) -> Iterator[Problem]:
        table = self._route_table(subnet_id)
        endpoints = self.ec2.describe_vpc_endpoints(
            Filters=_filters(vpc_id=self.ids.vpc_id, service_name=self._s3)
        )["VpcEndpoints"]
        if any(_serves(endpoint, table["RouteTableId"]) for endpoint in endpoints) or _leads_out(
            table
        ):
            return
        message = (
            f"has no way to S3: no endpoint for it, and no default route in {table['RouteTableId']}"
        )
        advice = f"add that route table to a gateway endpoint for {self._s3}"
        yield Problem(key, message, advice, subnet_id)

    @property
    def _s3(self) -> str:
        return f"com.amazonaws.{self.environment.region}.s3"

    def _route_table(self, subnet_id: str) -> Mapping[str, Any]:
        """Return the subnet's own route table, or the VPC's main one."""
        own = self.ec2.describe_route_tables(Filters=_filters(association__subnet_id=subnet_id))[
            "RouteTables"
        ]
        main = _filters(vpc_id=self.ids.vpc_id, association__main="true")
        tables: list[Mapping[str, Any]] = (
            own or self.ec2.describe_route_tables(Filters=main)["RouteTables"]
        )
        return tables[0]

    def _security_group(self, group_id: str) -> Iterator[Problem]:
        key = f"{_SECTION}.training_security_group_id"
        group = _one(
            lambda: self.ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
        )
        if group is None:
            yield _absent(key, group_id, "security group", self.environment)
            return
        if group["VpcId"] != self.ids.vpc_id:
            yield Problem(
                key,
                f"belongs to {group['VpcId']}, not to {self.ids.vpc_id}",
                "use a group of the VPC",
                group_id,
            )
        for direction, rules in (
            ("inbound", group["IpPermissions"]),
            ("outbound", group["IpPermissionsEgress"]),
        ):
            if not any(_is_everything_with(rule, group_id) for rule in rules):
                message = (
                    f"has no {direction} rule for all traffic that names the group itself;"
                    " 0.0.0.0/0 does not cover EFA"
                )
                yield Problem(
                    key, message, f"add one: protocol -1, {direction}, peer {group_id}", group_id
                )
        if not any(_lets_https_out(rule) for rule in group["IpPermissionsEgress"]):
            yield Problem(
                key,
                f"lets no HTTPS ({HTTPS}) out, and S3 is reached by it",
                f"allow TCP {HTTPS} out",
                group_id,
            )


def _one(describe: Any) -> Mapping[str, Any] | None:
    """Return the one item that `describe` returns, or None if EC2 does not know it."""
    try:
        items: list[Mapping[str, Any]] = describe()
    except ClientError as error:
        if error.response["Error"]["Code"].endswith((".NotFound", ".Malformed")):
            return None
        raise
    return items[0] if items else None


def _absent(key: str, identifier: str, kind: str, environment: Environment) -> Problem:
    message = f"is no {kind} of account {environment.account} in {environment.region}"
    return Problem(key, message, f"give the id of a {kind} that is there", identifier)


def _filters(**values: str) -> list[dict[str, Any]]:
    """Return EC2 filters: `vpc_id=` becomes vpc-id, `association__main=` association.main."""
    return [
        {"Name": name.replace("__", ".").replace("_", "-"), "Values": [value]}
        for name, value in values.items()
    ]


def _serves(endpoint: Mapping[str, Any], table_id: str) -> bool:
    """Return whether an endpoint serves a route table.

    A gateway endpoint serves by route tables, an interface endpoint with private names the whole
    VPC.
    """
    return table_id in endpoint.get("RouteTableIds", ()) or bool(
        endpoint.get("SubnetIds") and endpoint.get("PrivateDnsEnabled")
    )


def _leads_out(table: Mapping[str, Any]) -> bool:
    """Return whether a route table has a way out, such as a NAT or transit gateway.

    An internet gateway is none: SageMaker's interfaces have no public address.
    """
    routes = [
        route
        for route in table["Routes"]
        if route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State") != "blackhole"
    ]
    return any(not str(route.get("GatewayId", "")).startswith("igw-") for route in routes)


def _is_everything_with(rule: Permission, group_id: str) -> bool:
    return rule["IpProtocol"] == "-1" and any(
        pair.get("GroupId") == group_id for pair in rule.get("UserIdGroupPairs", ())
    )


def _lets_https_out(rule: Permission) -> bool:
    reaches = bool(rule.get("PrefixListIds")) or any(
        part.get("CidrIp") == "0.0.0.0/0" for part in rule.get("IpRanges", ())
    )
    covers = rule["IpProtocol"] == "-1" or (
        rule["IpProtocol"] == "tcp"
        and rule.get("FromPort", 0) <= HTTPS <= rule.get("ToPort", 65535)
    )
    return reaches and covers
