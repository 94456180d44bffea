"""`fallback` swaps a strategy that cannot run, with a notice; without it the error says what would
run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.launch import Horovod, MultiWorkerMirrored, SmddpAllReduce, Torchrun, resolve
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.settings import Collective, Framework, Strategy, Training
from tests.pipelines.inputs import definition_for, environment, infrastructure
from tests.pipelines.launch.shipped import shipped
from tests.repository import ROOT

P5: dict[str, Any] = {"instance_type": "ml.p5.48xlarge", "instance_count": 2}
TENSORFLOW: dict[str, Any] = {
    "framework": Framework.TENSORFLOW,
    "framework_version": "2.12.0",
    "instance_count": 2,
}


def test_the_fallback_swaps_the_launcher_with_a_notice_and_drops_what_it_cannot_read() -> None:
    swapped = resolve(
        Training(**P5, fallback=Strategy.TORCHRUN, custom_mpi_options="-verbose"), "us-east-1"
    )
    assert type(swapped.contract) is Torchrun
    assert swapped.notices[0].startswith(
        "smddp -> torchrun: training.instance_type = ml.p5.48xlarge: smddp cannot run"
    )
    assert (
        swapped.notices[1] == "training.custom_mpi_options is not used: torchrun does not read it"
    )


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
def test_tensorflow_falls_back_to_another_script_too(
    fallback: Strategy, contract: type, script: str
) -> None:
    swapped = resolve(Training(**TENSORFLOW, fallback=fallback), "us-east-1")
    assert (type(swapped.contract), swapped.entry_point) == (contract, script)
    assert swapped.hyperparameters["sagemaker_program"] == f'"{script}"'


def test_a_script_that_the_environment_names_stays() -> None:
    assert (
        resolve(
            Training(**TENSORFLOW, fallback=Strategy.HOROVOD, entry_point="mine.py"), "us-east-1"
        ).entry_point
        == "mine.py"
    )


def test_a_script_of_the_strategy_that_was_swapped_is_swapped_too_although_it_is_named() -> None:
    assert (
        resolve(
            shipped(**TENSORFLOW, fallback=Strategy.HOROVOD, entry_point="train_smddp.py"),
            "us-east-1",
            root=ROOT,
        ).entry_point
        == "train_horovod.py"
    )


def test_horovod_as_a_fallback_keeps_the_options_of_mpirun_and_its_ranks() -> None:
    swapped = resolve(
        Training(
            **TENSORFLOW,
            fallback=Strategy.HOROVOD,
            custom_mpi_options="-verbose",
            processes_per_host=4,
        ),
        "us-east-1",
    )
    assert swapped.contract == Horovod("-verbose", 4)


def test_pytorchddp_falls_back_as_smddp_does() -> None:
    swapped = resolve(
        Training(**P5, strategy=Strategy.PYTORCHDDP, fallback=Strategy.TORCHRUN), "us-east-1"
    )
    assert type(swapped.contract) is Torchrun


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            TENSORFLOW,
            (
                "or set training.strategy: horovod or multi_worker_mirrored, or training.fallback:"
                " horovod or multi_worker_mirrored"
            ),
        ),
        (
            {**TENSORFLOW, "fallback": Strategy.TORCHRUN},
            "for tensorflow: horovod, multi_worker_mirrored; use horovod, or remove it",
        ),
        (
            {"fallback": Strategy.PARAMETER_SERVER},
            "must be one that can run where smddp cannot; for pytorch: torchrun; use torchrun",
        ),
        (
            {"strategy": Strategy.TORCHRUN, "fallback": Strategy.TORCHRUN},
            "torchrun needs no fallback; remove it",
        ),
        (
            {"strategy": Strategy.NONE, "fallback": Strategy.TORCHRUN},
            "none needs no fallback; remove it",
        ),
        (
            {
                **TENSORFLOW,
                "instance_count": 1,
                "strategy": Strategy.MIRRORED,
                "fallback": Strategy.HOROVOD,
            },
            "mirrored needs no fallback",
        ),
        (
            {**TENSORFLOW, "strategy": Strategy.PARAMETER_SERVER, "fallback": Strategy.HOROVOD},
            "parameter_server needs no fallback",
        ),
    ],
)
def test_what_would_run_is_in_the_error(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(LaunchError, match=line):
        resolve(Training(**keys), "us-east-1")


WITHOUT_BOTH = {**TENSORFLOW, "framework_version": "2.21.0"}


def test_a_fallback_that_cannot_run_either_is_refused_with_the_other_one() -> None:
    with pytest.raises(LaunchError) as caught:
        resolve(
            Training(**{**TENSORFLOW, "framework_version": "2.19.0"}, fallback=Strategy.HOROVOD),
            "us-east-1",
        )
    (line,) = str(caught.value).splitlines()
    assert "AWS's GPU image of TensorFlow 2.19.0 does not contain Horovod" in line
    assert line.endswith(
        "or set training.strategy: multi_worker_mirrored, or training.fallback:"
        " multi_worker_mirrored"
    )


@pytest.mark.parametrize(
    ("fallback", "count"), [(Strategy.HOROVOD, 2), (Strategy.MULTI_WORKER_MIRRORED, 1)]
)
def test_what_the_image_lacks_for_our_scripts_it_lacks_for_a_fallback_too(
    fallback: Strategy, count: int
) -> None:
    with pytest.raises(LaunchError) as caught:
        resolve(shipped(**WITHOUT_BOTH, fallback=fallback), "us-east-1", root=ROOT)
    lines = str(caught.value).splitlines()
    assert len(lines) == count
    assert "lacks tf_keras~=2.21.0" in lines[-1]


def test_a_fallback_that_torchrun_cannot_start_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "setup.py").touch()
    with pytest.raises(LaunchError, match=r"contains setup\.py"):
        resolve(
            Training(**P5, fallback=Strategy.TORCHRUN, source_dir="mine"),
            "us-east-1",
            root=tmp_path,
        )


@pytest.mark.parametrize(
    ("keys", "contract"),
    [
        ({"framework_version": "2.3.0", "fallback": Strategy.TORCHRUN}, Torchrun),
        (
            {
                **TENSORFLOW,
                "framework_version": "2.19.0",
                "fallback": Strategy.MULTI_WORKER_MIRRORED,
            },
            MultiWorkerMirrored,
        ),
    ],
)
def test_horovod_falls_back_where_the_image_lacks_it(keys: dict[str, Any], contract: type) -> None:
    swapped = resolve(Training(strategy=Strategy.HOROVOD, **keys), "us-east-1")
    assert type(swapped.contract) is contract
    assert swapped.notices[0].startswith(
        f"horovod -> {keys['fallback']}: training.framework_version = {keys['framework_version']}:"
        " AWS's GPU"
    )


def test_horovod_stays_where_the_image_has_it() -> None:
    assert (
        type(
            resolve(
                Training(strategy=Strategy.HOROVOD, fallback=Strategy.TORCHRUN), "us-east-1"
            ).contract
        )
        is Horovod
    )


@pytest.mark.parametrize(
    ("instance_type", "backend"), [("ml.p5.48xlarge", "nccl"), ("ml.m5.xlarge", "gloo")]
)
def test_a_script_that_was_told_to_use_smddp_is_told_the_fallbacks_backend(
    instance_type: str, backend: str
) -> None:
    keys: dict[str, Any] = {
        "collective": Collective.ALLGATHER,
        "hyperparameters": {"backend": "smddp", "epochs": 2},
    }
    swapped = resolve(
        Training(**keys, instance_type=instance_type, fallback=Strategy.TORCHRUN), "us-east-1"
    )
    assert (
        swapped.notices[1]
        == f"training.hyperparameters.backend: smddp -> {backend}, because torchrun runs without"
        " smddp"
    )
    sent = swapped.for_job("s3://code", "job-1", keys["hyperparameters"])
    assert (sent["backend"], sent["epochs"]) == (f'"{backend}"', "2")


def test_the_pipelines_job_has_the_fallbacks_backend_too() -> None:
    settings = environment()
    training = Training(**P5, fallback=Strategy.TORCHRUN, hyperparameters={"backend": "smddp"})
    train = definition_for(settings.model_copy(update={"training": training}), infrastructure())[
        "Steps"
    ][0]
    assert train["Arguments"]["HyperParameters"]["backend"] == "nccl"


def test_ranks_that_the_fallback_does_not_start_are_a_notice() -> None:
    swapped = resolve(
        Training(**TENSORFLOW, fallback=Strategy.MULTI_WORKER_MIRRORED, processes_per_host=4),
        "us-east-1",
    )
    assert (
        "training.processes_per_host is not used: multi_worker_mirrored starts one process on each"
        " instance" in swapped.notices
    )


def test_a_mistake_that_no_fallback_mends_stays_an_error() -> None:
    with pytest.raises(LaunchError, match="is not in the table of images"):
        resolve(Training(**P5, fallback=Strategy.TORCHRUN, framework_version="2.99.0"), "us-east-1")
