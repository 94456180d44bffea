"""The training subnet is as large as the nodes need, and nodes that do not fit are refused."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipelines.checks import capacity
from shoal.settings.sections.file_system import FileSystem
from shoal.settings.sections.network import InterfaceEndpoint, Network
from shoal.settings.settings import Environment, Training
from tests.pipelines.inputs import environment


def _environment(
    count: int, cidr: str = "10.20.0.0/20", instance_type: str = "ml.p5.48xlarge", **network: Any
) -> Environment:
    training = Training(instance_type=instance_type, instance_count=count)
    return environment().model_copy(
        update={"training": training, "network": Network(cidr=cidr, **network)}
    )


@pytest.mark.parametrize(
    ("count", "subnet"),
    [(1, "10.20.0.0/22"), (15, "10.20.0.0/22"), (16, "10.20.8.0/21"), (63, "10.20.8.0/21")],
)
def test_the_subnet_grows_with_the_nodes(count: int, subnet: str) -> None:
    assert capacity.subnets(_environment(count)).training == subnet
    assert list(capacity.problems(_environment(count))) == []


def test_one_node_too_many_is_refused_with_the_number_that_fits() -> None:
    (problem,) = capacity.problems(_environment(64))
    line = problem.line("environments/test.yaml")
    assert (
        "training.instance_count = 64: 64 nodes of ml.p5.48xlarge take 2048 addresses (32 each)"
        in line
    )
    assert line.endswith(
        "2041 are left for them; use at most 63 nodes, or a network.cidr that ends in /19"
    )


def test_the_vpc_that_it_names_is_large_enough() -> None:
    assert list(capacity.problems(_environment(64, cidr="10.20.0.0/19"))) == []


def test_the_largest_job_that_can_be_asked_for_fits_into_the_default_vpc_twice() -> None:
    large = _environment(128, cidr="10.20.0.0/16")
    assert capacity.subnets(large).training == "10.20.0.0/18"
    assert capacity.addresses(large).comfortable < 16_379


def test_nodes_without_efa_take_two_addresses() -> None:
    assert capacity.addresses(_environment(10, instance_type="ml.m5.xlarge")).job == 20


def test_the_type_that_takes_the_most_counts() -> None:
    environment = _environment(10, instance_type="ml.p4d.24xlarge")
    training = environment.training.model_copy(update={"other_instance_types": ("ml.p5.48xlarge",)})
    assert capacity.addresses(environment.model_copy(update={"training": training})).job == 320


def test_what_else_is_in_the_subnet_counts() -> None:
    environment = _environment(
        1, interface_endpoints=(InterfaceEndpoint.STS, InterfaceEndpoint.KMS)
    )
    assert capacity.addresses(environment).others == 2 + 2
    assert (
        capacity.addresses(
            environment.model_copy(update={"file_system": FileSystem(storage_capacity_gib=2400)})
        ).others
        == 2 + 2 + 3
    )
