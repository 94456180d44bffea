"""EFA: which instance types have it, and what their nodes and containers need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.launch import fabric
from shoal.launch.source_code import SourceCode, read
from shoal.pipelines.validation.shapes import values_of
from shoal.settings.frameworks import Framework
from shoal.settings.settings import Strategy, Training
from tests.pipelines.launch.shipped import shipped
from tests.repository import ROOT
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


@pytest.mark.parametrize(
    "environment",
    [
        {"NCCL_NET": "aws libfabric"},
        {"NCCL_DEBUG_FILE": "/tmp/mine.%p.log"},
        {"FI_PROVIDER": "efa"},
    ],
)
def test_variables_with_which_efa_can_be_proven_are_accepted(environment: dict[str, str]) -> None:
    training = Training(require_efa=True, environment=environment)
    assert list(fabric.problems(training, SourceCode())) == []


def test_efa_is_not_required_of_scripts_that_do_not_look(tmp_path: Path) -> None:
    training = Training(require_efa=True, source_dir="mine")
    (tmp_path / "mine").mkdir()
    (problem,) = fabric.problems(training, read(tmp_path, training))
    assert problem.message.startswith("no script in mine reads SHOAL_REQUIRE_EFA")
    (tmp_path / "mine" / "network.py").write_text('REQUIRE = "SHOAL_REQUIRE_EFA"\n')
    assert list(fabric.problems(training, read(tmp_path, training))) == []


@pytest.mark.parametrize(("framework", "problems"), [("pytorch", 0), ("tensorflow", 1)])
def test_the_shipped_pytorch_scripts_look(framework: str, problems: int) -> None:
    training = shipped(framework=Framework(framework), require_efa=True)
    assert len(list(fabric.problems(training, read(ROOT, training)))) == problems


def test_what_is_told_is_what_the_script_reads() -> None:
    assert (
        f'REQUIRE = "{fabric.REQUIRE}"'
        in (ROOT / "training_code" / "common" / "fabric.py").read_text()
    )


@pytest.mark.parametrize(("keys", "message"), rows(__file__, "fabric.yaml", "refused"))
def test_efa_is_not_required_where_it_cannot_be(keys: dict[str, Any], message: str) -> None:
    (problem,) = fabric.problems(Training(require_efa=True, **keys), SourceCode())
    assert problem.message.startswith(message)


def test_nothing_is_wrong_where_efa_is_not_required() -> None:
    training = Training(instance_type="ml.m5.xlarge", strategy=Strategy.NONE)
    assert list(fabric.problems(training, SourceCode())) == []
