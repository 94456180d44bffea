"""The launch contract: what runs, how and in which image, and what the fallback changes."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.launch import Launch, tables
from shoal.settings.hyperparameters import HyperparameterValue
from shoal.settings.settings import Training
from tests.pipelines.inputs import definition_for, environment, golden, infrastructure
from tests.pipelines.launch import shipped
from tests.tables import rows

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
OPTIONS = {"custom_mpi_options": "-verbose --NCCL_DEBUG VERSION"}
ALLGATHER = {"collective": "allgather"}
BY_MPIRUN = {**ALLGATHER, "launcher": "mpirun"}
TENSORFLOW: dict[str, Any] = {"framework": "tensorflow"}
ALONE = {"instance_count": 1}
P5: dict[str, Any] = {"instance_type": "ml.p5.48xlarge", "fallback": "torchrun"}
SDK_CASES = rows(__file__, "launch.yaml", "sdk")


def launch(**keys: Any) -> Launch:
    return shipped.launch(**{"instance_count": 2, **keys})


@pytest.mark.parametrize(("case", "keys"), SDK_CASES)
def test_hyperparameters_equal_what_sdk_v2_emits(case: str, keys: dict[str, Any]) -> None:
    own: dict[str, HyperparameterValue] = {
        "epochs": 2,
        "batch-size": 256,
        "learning-rate": 0.003,
        "optimizer": "adam",
    }
    ours = launch(**{"entry_point": "train.py", "source_dir": "mine", **keys}).for_job(
        "s3://code/sourcedir.tar.gz", "job-1", own, "s3://artifacts/training"
    )
    assert ours == golden("sdk_v2")["cases"][case]["hyperparameters"]


def test_every_way_that_sdk_v2_was_asked_for_is_compared_but_the_contradictory_one() -> None:
    """SDK v2 makes torchrun of both; a training section can name one only."""
    both = "smdistributed and torch_distributed"
    cases = golden("sdk_v2")["cases"]
    assert set(cases) - {case for case, _ in SDK_CASES} == {both}
    assert {
        "sagemaker_distributed_dataparallel_enabled",
        "sagemaker_torch_distributed_enabled",
    } <= set(cases[both]["hyperparameters"])
    assert "sagemaker_torch_distributed_enabled" not in launch().hyperparameters


def test_a_tensorflow_job_without_an_output_path_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="needs output_path"):
        launch(**TENSORFLOW).for_job("s3://code/sourcedir.tar.gz", "job-1", {})


def test_a_job_with_more_hyperparameters_than_sagemaker_takes_is_a_mistake() -> None:
    own = {f"option-{number}": number for number in range(93)}
    message = "a job takes 100 hyperparameters, and this one has 101, the toolkit's included"
    with pytest.raises(ValueError, match=message):
        launch().for_job("s3://code/sourcedir.tar.gz", "job-1", own)


@pytest.mark.parametrize(("keys", "label"), rows(__file__, "launch.yaml", "contracts"))
def test_each_strategy_is_one_contract(keys: dict[str, Any], label: str) -> None:
    assert launch(**keys).contract.label == label


@pytest.mark.parametrize("strategy", ["smddp", "pytorchddp", "torchrun", "horovod"])
def test_every_launcher_of_several_ranks_is_told_how_many(strategy: str) -> None:
    """Without the key it is what SDK v2 starts."""
    with_ranks = launch(strategy=strategy, processes_per_host=4).hyperparameters
    without_ranks = launch(strategy=strategy).hyperparameters
    assert dict(with_ranks.items() - without_ranks.items()) == {
        "sagemaker_mpi_num_of_processes_per_host": "4"
    }


def test_images_are_full_tags_of_the_regions_registry() -> None:
    launched = launch()
    images = (launched.image_uri, launched.evaluation_image_uri, launched.inference_image_uri)
    assert images == (
        f"{REGISTRY}/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker",
        f"{REGISTRY}/pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker",
        f"{REGISTRY}/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker",
    )


NEWER = {
    "image_uri": f"{REGISTRY}/pytorch:2.15.0-cu133-amzn2023-sagemaker",
    "framework_version": "2.15.0",
}


@pytest.mark.parametrize(("keys", "image", "uri"), rows(__file__, "launch.yaml", "images"))
def test_images(keys: dict[str, Any], image: str, uri: str) -> None:
    assert uri in getattr(launch(**{"strategy": "torchrun", **keys}), image)


@pytest.mark.parametrize(
    ("repository", "runs"),
    [("pytorch-inference", True), ("tensorflow-inference", True), ("djl-inference", False)],
)
def test_only_awss_image_of_a_framework_runs_the_workloads_script(
    repository: str, runs: bool
) -> None:
    assert tables.runs_inference_script(f"{REGISTRY}/{repository}:1.2.3-gpu") is runs


T212: dict[str, Any] = {**TENSORFLOW, "framework_version": "2.12.0"}
"""An image without smddp."""


@pytest.mark.parametrize(("code", "keys", "script"), rows(__file__, "launch.yaml", "scripts"))
def test_a_fallback_has_a_script_of_its_own(code: str, keys: dict[str, Any], script: str) -> None:
    swapped = shipped.launch(code, **T212, **keys)
    assert swapped.entry_point == script
    assert swapped.hyperparameters["sagemaker_program"] == f'"{script}"'


def test_horovod_as_a_fallback_keeps_the_options_of_mpirun_and_its_ranks() -> None:
    keys = {"custom_mpi_options": "-verbose", "processes_per_host": 4}
    contract = launch(**T212, fallback="horovod", **keys).contract
    assert contract.hyperparameters() == {
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": "4",
        "sagemaker_mpi_custom_mpi_options": '"-verbose"',
    }


def test_a_fallback_of_one_process_is_told_no_number_of_ranks() -> None:
    swapped = launch(**T212, fallback="multi_worker_mirrored", processes_per_host=4)
    assert swapped.contract.hyperparameters() == {
        "sagemaker_multi_worker_mirrored_strategy_enabled": "true"
    }


@pytest.mark.parametrize(
    ("instance_type", "backend"), [("ml.p5.48xlarge", "nccl"), ("ml.m5.xlarge", "gloo")]
)
def test_a_script_that_was_told_to_use_smddp_is_told_the_fallbacks_backend(
    instance_type: str, backend: str
) -> None:
    own: dict[str, HyperparameterValue] = {"backend": "smddp", "epochs": 2}
    keys = {**ALLGATHER, "instance_type": instance_type, "fallback": "torchrun"}
    sent = launch(**keys, hyperparameters=own).for_job("s3://code", "job-1", own)
    assert (sent["backend"], sent["epochs"]) == (f'"{backend}"', "2")


def test_the_pipelines_job_has_the_fallbacks_backend_too() -> None:
    training = Training(**P5, instance_count=2, hyperparameters={"backend": "smddp"})
    settings = environment().model_copy(update={"training": training})
    train = definition_for(settings, infrastructure())["Steps"][0]
    assert train["Arguments"]["HyperParameters"]["backend"] == "nccl"


@pytest.mark.parametrize(
    "keys",
    [
        {**TENSORFLOW, "entry_point": "train.py", "source_dir": "mine"},
        {**TENSORFLOW, "entry_point": "mine.py"},
        {"hyperparameters": {"backend": "auto"}},
        {"strategy": "torchrun", "hyperparameters": {"backend": "nccl"}},
        {"strategy": "torchrun", "hyperparameters": {"backend": "gloo"}},
        {**P5, "hyperparameters": {"backend": "nccl"}},
        # names that torchrun takes for nothing of its own, and another launcher
        {
            "strategy": "torchrun",
            "hyperparameters": dict.fromkeys(
                ("log-dir", "role", "epochs", "batch-size", "learning-rate", "n"), 1
            ),
        },
        {"hyperparameters": {"log": 1}},
    ],
)
def test_what_goes_together_is_accepted(keys: dict[str, Any]) -> None:
    assert shipped.launch("shipped_code", **keys).contract


@pytest.mark.parametrize(("is_taken", "keys"), rows(__file__, "launch.yaml", "spaces"))
def test_a_value_with_spaces_is_refused_or_started_without_a_shell(
    is_taken: bool, keys: dict[str, Any]
) -> None:
    keys = {"instance_count": 2, **keys, "hyperparameters": {"fsdp": "full_shard auto_wrap"}}
    lines = shipped.refusals(**keys)
    said = "use strategy torchrun or none of PyTorch 1.13.1 or later"
    assert [said in line for line in lines] == [True][is_taken:]
    switch = "sagemaker_toolkit_native_launcher_enabled"
    assert not is_taken or launch(**keys).hyperparameters[switch] == "true"
    assert switch not in launch(**keys | {"hyperparameters": {}}).hyperparameters
