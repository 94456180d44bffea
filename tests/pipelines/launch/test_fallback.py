"""Where a strategy cannot run, `fallback` swaps it with a notice; without it the error names what would run."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import LaunchError
from config.settings import Framework, Strategy, Training
from pipelines.launch import Horovod, MultiWorkerMirrored, SmddpAllReduce, Torchrun, resolve

P5: dict[str, Any] = {"instance_type": "ml.p5.48xlarge", "instance_count": 2}
TENSORFLOW: dict[str, Any] = {"framework": Framework.TENSORFLOW, "framework_version": "2.12.0", "instance_count": 2}


def test_the_fallback_swaps_the_launcher_with_a_notice_and_drops_what_it_cannot_read() -> None:
    swapped = resolve(Training(**P5, fallback=Strategy.TORCHRUN, custom_mpi_options="-verbose"), "us-east-1")
    assert type(swapped.contract) is Torchrun
    assert swapped.notices[0].startswith("smddp -> torchrun: training.instance_type = ml.p5.48xlarge: smddp cannot run")
    assert swapped.notices[1] == "training.custom_mpi_options is not used: torchrun does not read it"


def test_the_fallback_is_not_used_where_smddp_can_run() -> None:
    stays = resolve(Training(instance_count=2, fallback=Strategy.TORCHRUN), "us-east-1")
    assert (type(stays.contract), stays.notices) == (SmddpAllReduce, ())


@pytest.mark.parametrize(
    ("fallback", "contract", "script"),
    [
        (Strategy.HOROVOD, Horovod, "train_horovod.py"),
        (Strategy.MULTI_WORKER_MIRRORED, MultiWorkerMirrored, "train_multi_worker_mirrored.py"),
    ],
)
def test_tensorflow_falls_back_to_another_script_too(fallback: Strategy, contract: type, script: str) -> None:
    swapped = resolve(Training(**TENSORFLOW, fallback=fallback), "us-east-1")
    assert (type(swapped.contract), swapped.entry_point) == (contract, script)
    assert swapped.hyperparameters["sagemaker_program"] == f'"{script}"'


def test_a_script_that_the_environment_names_stays() -> None:
    assert resolve(Training(**TENSORFLOW, fallback=Strategy.HOROVOD, entry_point="mine.py"), "us-east-1").entry_point == "mine.py"


def test_horovod_as_a_fallback_keeps_the_options_of_mpirun_and_its_ranks() -> None:
    swapped = resolve(Training(**TENSORFLOW, fallback=Strategy.HOROVOD, custom_mpi_options="-verbose", processes_per_host=4), "us-east-1")
    assert swapped.contract == Horovod("-verbose", 4)


def test_pytorchddp_falls_back_as_smddp_does() -> None:
    swapped = resolve(Training(**P5, strategy=Strategy.PYTORCHDDP, fallback=Strategy.TORCHRUN), "us-east-1")
    assert type(swapped.contract) is Torchrun


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (TENSORFLOW, "or set training.strategy: horovod or multi_worker_mirrored, or training.fallback: horovod or multi_worker_mirrored"),
        ({**TENSORFLOW, "fallback": Strategy.TORCHRUN}, "for tensorflow: horovod, multi_worker_mirrored; use horovod, or remove it"),
        ({"fallback": Strategy.PARAMETER_SERVER}, "must be one that can run where smddp cannot; for pytorch: torchrun; use torchrun"),
        ({"strategy": Strategy.TORCHRUN, "fallback": Strategy.TORCHRUN}, "torchrun needs no fallback; remove it"),
    ],
)
def test_what_would_run_is_in_the_error(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(LaunchError, match=line):
        resolve(Training(**keys), "us-east-1")


def test_a_mistake_that_no_fallback_mends_stays_an_error() -> None:
    with pytest.raises(LaunchError, match="is not in the table of images"):
        resolve(Training(**P5, fallback=Strategy.TORCHRUN, framework_version="2.99.0"), "us-east-1")
