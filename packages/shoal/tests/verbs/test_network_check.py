"""Facts that only the API knows of a network, asked of shoal-local's EC2."""

import re
from typing import Any

import pytest

from local_kit.tables import rows
from shoal.aws.target import Target
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.network import ExistingNetwork, Network
from shoal.settings.settings import Environment, Strategy, Training
from shoal.verbs.doctor.network_check import check_network, require_fit
from tests.verbs.conftest import ACCOUNT, REGION, refusing

ZONES = ("use1-az4", "use1-az1", "use1-az2")
ANYWHERE = [{"CidrIp": "0.0.0.0/0"}]
EVERYTHING = {"IpProtocol": "-1", "IpRanges": ANYWHERE}
HTTPS_OUT = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": ANYWHERE}


@pytest.fixture(scope="module")
def ids(target: Target) -> ExistingNetwork:
    """Make a correct VPC: three subnets in the zones, an S3 endpoint on their route table, a group
    that names itself.
    """
    ec2 = target.client("ec2")
    vpc_id = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    table = ec2.create_route_table(VpcId=vpc_id)["RouteTable"]["RouteTableId"]
    subnets = []
    for number, zone in enumerate(ZONES):
        subnet = _subnet(target, vpc_id, number, zone)
        ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
        subnets.append(subnet)
    service = f"com.amazonaws.{REGION}.s3"
    ec2.create_vpc_endpoint(VpcId=vpc_id, ServiceName=service, RouteTableIds=[table])
    training, *hosting = subnets
    group = _group(target, vpc_id, "good")
    return ExistingNetwork(
        vpc_id=vpc_id,
        training_subnet_id=training,
        hosting_subnet_ids=tuple(hosting),
        training_security_group_id=group,
    )


def _subnet(target: Target, vpc_id: str, number: int, zone: str) -> str:
    block = f"10.40.{number}.0/24"
    create = target.client("ec2").create_subnet
    subnet = create(VpcId=vpc_id, CidrBlock=block, AvailabilityZoneId=zone)["Subnet"]
    return str(subnet["SubnetId"])


def _group(target: Target, vpc_id: str, name: str, missing: str = "") -> str:
    """Make a security group with the rules for jobs, but for the missing one."""
    ec2 = target.client("ec2")
    group = ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc_id)
    group_id = str(group["GroupId"])
    itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}
    ec2.revoke_security_group_egress(GroupId=group_id, IpPermissions=[EVERYTHING])
    if missing != "inbound":
        ec2.authorize_security_group_ingress(GroupId=group_id, IpPermissions=[itself])
    for way, rule in (("outbound", itself), ("https", HTTPS_OUT)):
        if missing != way:
            ec2.authorize_security_group_egress(GroupId=group_id, IpPermissions=[rule])
    return group_id


LARGE = Training(strategy=Strategy.TORCHRUN, instance_type="ml.p5.48xlarge", instance_count=10)
"""Takes 32 addresses a node."""


def _environment(
    ids: ExistingNetwork | None, training: Training | None = None, **network: Any
) -> Environment:
    zones = {"training_az_id": ZONES[0], "hosting_az_ids": ZONES[1:]} | network
    return Environment(
        name="dev",
        workload="churn",
        account=ACCOUNT,
        region=REGION,
        network=Network(existing=ids, **zones),
        training=training or Training(),
    )


def _lines(
    target: Target, ids: ExistingNetwork | None, training: Training | None = None, **network: Any
) -> list[str]:
    problems = check_network(target, _environment(ids, training, **network))
    return [problem.line("") for problem in problems]


def test_a_network_as_it_should_be_has_no_problems(target: Target, ids: ExistingNetwork) -> None:
    assert _lines(target, ids) == []


def test_a_network_to_be_made_needs_zones_that_the_account_has(target: Target) -> None:
    (line,) = _lines(target, None, training_az_id="use1-az9")
    assert line.startswith(
        'network.training_az_id = "use1-az9": is not a zone that account 111122223333 has in'
        " us-east-1; use one of use1-az1"
    )
    assert _lines(target, None) == []


def test_a_subnet_elsewhere_or_too_small_is_found(target: Target, ids: ExistingNetwork) -> None:
    zone, size = _lines(target, ids, LARGE, training_az_id="use1-az6")
    says = f'"{ids.training_subnet_id}": lies in use1-az4, and the settings say use1-az6'
    assert f"training_subnet_id = {says}" in zone
    says = "has 251 free addresses, and 322 are needed; use a larger subnet or fewer instances"
    assert says in size


def test_ids_that_are_not_there_are_found(target: Target, ids: ExistingNetwork) -> None:
    wrong = {"vpc_id": f"vpc-{'0' * 17}", "training_subnet_id": f"subnet-{'0' * 17}"}
    lines = _lines(target, ids.model_copy(update=wrong))
    account = "account 111122223333 in us-east-1"
    assert f'vpc_id = "vpc-00000000000000000": is no VPC of {account}' in lines[0]
    assert "is no subnet of account" in lines[1]


def test_subnets_and_group_of_another_vpc_are_found(target: Target, ids: ExistingNetwork) -> None:
    other = target.client("ec2").create_vpc(CidrBlock="10.41.0.0/16")["Vpc"]["VpcId"]
    lines = _lines(target, ids.model_copy(update={"vpc_id": other}))
    assert len(lines) == 4
    assert all(f"lies in {ids.vpc_id}, not in {other}" in line for line in lines[:3])
    assert f"belongs to {ids.vpc_id}, not to {other}" in lines[-1]


def test_a_vpc_of_its_own_hardware_is_found(target: Target, ids: ExistingNetwork) -> None:
    ec2 = target.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.42.0.0/16", InstanceTenancy="dedicated")["Vpc"]["VpcId"]
    line, *_ = _lines(target, ids.model_copy(update={"vpc_id": vpc}))
    assert "has the tenancy dedicated, and SageMaker needs default" in line


def test_only_an_endpoint_or_a_nat_gateway_is_a_way_to_s3(
    target: Target, ids: ExistingNetwork
) -> None:
    ec2, subnet = target.client("ec2"), _subnet(target, ids.vpc_id, 100, ZONES[0])
    table = ec2.create_route_table(VpcId=ids.vpc_id)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    ids = ids.model_copy(update={"training_subnet_id": subnet})
    (line,) = _lines(target, ids)
    assert f"has no way to S3: no endpoint for it, and no default route in {table}" in line
    default = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0"}
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=ids.vpc_id)
    ec2.create_route(**default, GatewayId=gateway)
    assert len(_lines(target, ids)) == 1
    ec2.delete_route(**default)
    nat = ec2.create_nat_gateway(SubnetId=subnet, ConnectivityType="private")["NatGateway"]
    ec2.create_route(**default, NatGatewayId=nat["NatGatewayId"])
    assert _lines(target, ids) == []


@pytest.mark.parametrize(("missing", "message"), rows(__file__, "cases.yaml", "rules"))
def test_a_security_group_that_lacks_a_rule_is_found(
    target: Target, ids: ExistingNetwork, missing: str, message: str
) -> None:
    group = _group(target, ids.vpc_id, f"without-{missing}", missing)
    (line,) = _lines(target, ids.model_copy(update={"training_security_group_id": group}))
    assert message in line


def test_a_network_is_refused_with_its_line(target: Target, ids: ExistingNetwork) -> None:
    wrong = _environment(ids, training_az_id="use1-az6")
    key = "network.existing.training_subnet_id"
    says = rf"^environments/dev\.yaml:7: {re.escape(key)} = .* lies in use1-az4"
    with pytest.raises(ConfigError, match=says):
        require_fit(target, wrong, {key: "environments/dev.yaml:7"})


def test_a_deployment_counts_no_addresses(target: Target, ids: ExistingNetwork) -> None:
    assert require_fit(target, _environment(ids, LARGE)) == ""


def test_a_network_to_be_made_is_not_asked_about_before_a_deployment() -> None:
    nobody = Target(ACCOUNT, REGION, "http://127.0.0.1:9")  # nothing listens there
    assert require_fit(nobody, _environment(None)) == ""


def test_without_permission_to_ask_it_goes_on_with_a_notice(
    target: Target, ids: ExistingNetwork
) -> None:
    """As for who may only assume the CDK's roles; the code is EC2's."""
    forbidden = refusing(target, "*", code="UnauthorizedOperation")
    notice = require_fit(forbidden, _environment(ids))
    assert notice == f"whether {ids.vpc_id} fits was not checked: DescribeVpcs is not allowed"
