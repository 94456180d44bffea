"""Rules of the section `network`: each broken one is a line that says what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.settings.environment_file import lines_with

TRAINING, FIRST, SECOND = (
    "subnet-00000000000000001",
    "subnet-00000000000000002",
    "subnet-00000000000000003",
)
EXISTING: dict[str, Any] = {
    "vpc_id": "vpc-00000000000000001",
    "training_subnet_id": TRAINING,
    "hosting_subnet_ids": [FIRST, SECOND],
}

BROKEN: list[tuple[dict[str, Any], str]] = [
    (
        {"training_az_id": "usw2-az4"},
        (
            'training_az_id = "usw2-az4": lies in us-west-2, not in us-east-1; use an id that'
            " starts with use1-az"
        ),
    ),
    (
        {"hosting_az_ids": ["use1-az1", "euw1-az1"]},
        'hosting_az_ids[1] = "euw1-az1": lies in eu-west-1',
    ),
    ({"hosting_az_ids": ["use1-az1", "use1-az1"]}, "names use1-az1 2 times; the zones must differ"),
    ({"hosting_az_ids": ["use1-az1"]}, "must have at least 2 entries"),
    ({"cidr": "10.20.0.1/16"}, "is not an address range: 10.20.0.1/16 has host bits set"),
    ({"cidr": "8.8.0.0/16"}, "is not a private range"),
    (
        {"interface_endpoints": ["sagemaker"]},
        (
            'interface_endpoints[0] = "sagemaker": must be one of: sagemaker.api,'
            " sagemaker.runtime, sts"
        ),
    ),
    ({"interface_endpoints": ["sts", "sts"]}, "names sts 2 times; name each service once"),
    (
        {"existing": EXISTING, "nat": True},
        "network.nat = true: is only read for a VPC that is made; remove it",
    ),
    (
        {"existing": EXISTING, "cidr": "10.20.0.0/16"},
        'network.cidr = "10.20.0.0/16": is only read for a VPC that is made',
    ),
    (
        {"existing": EXISTING, "interface_endpoints": ["sts"]},
        "interface_endpoints = [sts]: is only read for a VPC that is made",
    ),
    (
        {"existing": EXISTING | {"hosting_subnet_ids": [FIRST, FIRST]}},
        f"names {FIRST} 2 times; the subnets must differ",
    ),
    (
        {"existing": EXISTING | {"hosting_subnet_ids": [FIRST, SECOND, TRAINING]}},
        "has 3 entries, and network.hosting_az_ids has 2",
    ),
    (
        {"existing": EXISTING | {"hosting_subnet_ids": [TRAINING, SECOND]}},
        "puts the training subnet into use1-az1, and network.training_az_id",
    ),
    (
        {"existing": EXISTING | {"vpc_id": "vpc-1"}},
        'network.existing.vpc_id = "vpc-1": must be the id of a VPC',
    ),
    (
        {"existing": {"vpc_id": "vpc-00000000"} | EXISTING | {"subnet": "x"}},
        "network.existing.subnet: there is no such key here",
    ),
]


@pytest.mark.parametrize(("network", "line"), BROKEN, ids=[line[:50] for _, line in BROKEN])
def test_a_broken_rule_is_one_line(tmp_path: Path, network: dict[str, Any], line: str) -> None:
    (problem,) = lines_with(tmp_path, {"network": network})
    assert line in problem


@pytest.mark.parametrize(
    "network",
    [
        {"hosting_az_ids": ["use1-az4", "use1-az1"]},
        {"nat": True, "interface_endpoints": ["sagemaker.api", "sts"]},
        {"existing": EXISTING},
        {
            "existing": EXISTING | {"hosting_subnet_ids": [TRAINING, SECOND]},
            "hosting_az_ids": ["use1-az4", "use1-az1"],
        },
    ],
    ids=[
        "training's zone plus one",
        "nat and endpoints",
        "existing",
        "existing, one subnet for both",
    ],
)
def test_networks_that_can_be_are_accepted(tmp_path: Path, network: dict[str, Any]) -> None:
    assert lines_with(tmp_path, {"network": network}) == []


def test_what_an_existing_network_lacks_is_named(tmp_path: Path) -> None:
    (line,) = lines_with(
        tmp_path,
        {"network": {"existing": {"vpc_id": "vpc-00000000", "training_subnet_id": TRAINING}}},
    )
    assert (
        "network.existing.hosting_subnet_ids: the key is missing; add it: Ids of the endpoint"
        " subnets" in line
    )
