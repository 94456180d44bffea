"""EFA: which instance types have it, and what their nodes and containers need."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.launch import fabric
from shoal.launch.source_code import SourceCode, read
from shoal.pipelines.shapes import values_of
from shoal.settings.settings import Framework, Strategy, Training
from tests.pipelines.launch.shipped import shipped
from tests.repository import ROOT

EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_HUGE_PAGE": "0"}


def test_every_row_is_a_training_instance_type_of_sagemaker() -> None:
    assert set(fabric.efa_instance_types()) - set(values_of("TrainingInstanceType")) == set()


@pytest.mark.parametrize(
    ("instance_type", "addresses"),
    [
        ("ml.p5.48xlarge", 32),
        ("ml.p5en.48xlarge", 17),
        ("ml.p4d.24xlarge", 5),
        ("ml.g5.xlarge", 2),
        ("ml.m5.xlarge", 2),
    ],
)
def test_a_node_takes_one_address_per_network_card(instance_type: str, addresses: int) -> None:
    assert fabric.addresses_per_node(instance_type) == addresses


def test_no_type_with_efa_takes_fewer_addresses_than_sagemaker_documents() -> None:
    assert min(fabric.addresses_per_node(name) for name in fabric.efa_instance_types()) == 5


@pytest.mark.parametrize(
    ("instance_type", "expected"),
    [
        ("ml.p4d.24xlarge", EFA),
        ("ml.p5en.48xlarge", EFA),
        ("ml.g6e.48xlarge", EFA),
        ("ml.g5.12xlarge", EFA | {"NCCL_SHM_USE_CUDA_MEMCPY": "1"}),
        ("ml.g5.xlarge", {}),
        ("ml.p3.16xlarge", {}),
        ("ml.m5.xlarge", {}),
    ],
)
def test_efa_variables_are_set_on_types_with_efa_only(
    instance_type: str, expected: dict[str, str]
) -> None:
    assert fabric.variables(instance_type) == expected


def test_what_the_environment_file_says_wins_and_is_told() -> None:
    training = Training(environment={"FI_PROVIDER": "tcp", "MINE": "1"})
    assert fabric.environment(training) == EFA | {"FI_PROVIDER": "tcp", "MINE": "1"}
    (notice,) = fabric.notices(training)
    assert "FI_PROVIDER = tcp replaces efa, which ml.p4d.24xlarge needs" in notice


def test_the_same_value_is_no_news() -> None:
    assert list(fabric.notices(Training(environment={"FI_PROVIDER": "efa"}))) == []


def test_asking_for_efa_where_there_is_none_is_told() -> None:
    (notice,) = fabric.notices(
        Training(instance_type="ml.g5.xlarge", environment={"FI_PROVIDER": "efa"})
    )
    assert "ml.g5.xlarge has no EFA" in notice


def test_a_job_that_requires_efa_is_told_so_and_no_other() -> None:
    assert fabric.environment(Training(require_efa=True)) == EFA | {"SHOAL_REQUIRE_EFA": "1"}
    assert fabric.environment(Training()) == EFA


def test_what_is_required_cannot_be_switched_off_by_a_variable() -> None:
    training = Training(require_efa=True, environment={"SHOAL_REQUIRE_EFA": "0"})
    assert fabric.environment(training)["SHOAL_REQUIRE_EFA"] == "1"


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
        in (ROOT / "training_code" / "mnist" / "pytorch" / "fabric.py").read_text()
    )


@pytest.mark.parametrize(
    ("training", "named"),
    [
        (
            Training(require_efa=True, instance_type="ml.m5.xlarge", strategy=Strategy.NONE),
            "ml.m5.xlarge has no EFA",
        ),
        (
            Training(require_efa=True, environment={"FI_PROVIDER": "tcp"}),
            "training.environment.FI_PROVIDER = tcp keeps the traffic off EFA",
        ),
        (
            Training(require_efa=True, custom_mpi_options="-verbose -x FI_PROVIDER=tcp"),
            "training.custom_mpi_options -x FI_PROVIDER=tcp keeps the traffic off EFA",
        ),
        (
            Training(require_efa=True, environment={"NCCL_NET": "Socket"}),
            "training.environment.NCCL_NET = Socket keeps the traffic off EFA",
        ),
        (
            Training(require_efa=True, environment={"NCCL_DEBUG_FILE": "/dev/stdout"}),
            "training.environment.NCCL_DEBUG_FILE = /dev/stdout is the same for all processes",
        ),
    ],
)
def test_efa_is_not_required_where_it_cannot_be(training: Training, named: str) -> None:
    (problem,) = fabric.problems(training, SourceCode())
    assert problem.message.startswith(named)


def test_nothing_is_wrong_where_efa_is_not_required() -> None:
    training = Training(instance_type="ml.m5.xlarge", strategy=Strategy.NONE)
    assert list(fabric.problems(training, SourceCode())) == []
