"""EFA: which instance types have it, and what their nodes and containers need."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.launch import fabric, watch
from shoal.launch.source_code import SourceCode
from shoal.pipelines.validation.shapes import values_of
from shoal.settings.settings import Strategy, Training
from tests.tables import rows

EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_HUGE_PAGE": "0"}


def test_every_row_is_a_training_instance_type_of_sagemaker() -> None:
    assert set(fabric.efa_instance_types()) - set(values_of("TrainingInstanceType")) == set()


@pytest.mark.parametrize(("instance_type", "addresses"), rows(__file__, "fabric.yaml", "addresses"))
def test_a_node_takes_one_address_per_network_card(instance_type: str, addresses: int) -> None:
    assert fabric.addresses_per_node(instance_type) == addresses


def test_no_type_with_efa_takes_fewer_addresses_than_sagemaker_documents() -> None:
    assert min(fabric.addresses_per_node(name) for name in fabric.efa_instance_types()) == 5


@pytest.mark.parametrize(("instance_type", "expected"), rows(__file__, "fabric.yaml", "variables"))
def test_efa_variables_are_set_on_types_with_efa_only(
    instance_type: str, expected: dict[str, str]
) -> None:
    assert fabric.variables(instance_type) == expected


@pytest.mark.parametrize(("keys", "notices"), rows(__file__, "fabric.yaml", "notices"))
def test_what_contradicts_efa_is_told(keys: dict[str, Any], notices: list[str]) -> None:
    assert list(fabric.notices(Training(**keys))) == notices


@pytest.mark.parametrize(("keys", "variables"), rows(__file__, "fabric.yaml", "environments"))
def test_the_containers_environment(keys: dict[str, Any], variables: dict[str, str]) -> None:
    assert fabric.environment(Training(**keys)) == variables


@pytest.mark.parametrize("environment", [{"NCCL_NET": "aws libfabric"}, {"FI_PROVIDER": "efa"}])
def test_variables_with_which_efa_can_be_proven_are_accepted(environment: dict[str, str]) -> None:
    training = Training(require_efa=True, environment=environment)
    assert list(fabric.problems(training, is_looked_at=True)) == []


def test_efa_is_not_required_where_nothing_looks() -> None:
    (problem,) = fabric.problems(Training(require_efa=True), is_looked_at=False)
    assert problem.message.startswith("nothing in the job would look which network it uses")


@pytest.mark.parametrize(
    ("keys", "looks"),
    [
        ({}, True),
        ({"instance_type": "ml.g5.xlarge"}, False),
        ({"framework": "tensorflow"}, False),
        ({"framework_version": "1.8.1"}, False),  # Python 3.6
    ],
)
def test_the_watch_looks_with_pytorch_where_there_may_be_efa(
    keys: dict[str, Any], *, looks: bool
) -> None:
    training = Training(stall_s="off", **keys)
    assert watch.proves_network(training, SourceCode()) is looks


@pytest.mark.parametrize(("keys", "message"), rows(__file__, "fabric.yaml", "refused"))
def test_efa_is_not_required_where_it_cannot_be(keys: dict[str, Any], message: str) -> None:
    (problem,) = fabric.problems(Training(require_efa=True, **keys), is_looked_at=True)
    assert problem.message.startswith(message)


def test_nothing_is_wrong_where_efa_is_not_required() -> None:
    training = Training(instance_type="ml.m5.xlarge", strategy=Strategy.NONE)
    assert list(fabric.problems(training, is_looked_at=False)) == []
