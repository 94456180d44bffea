"""The launch contract: what runs, how and in which image, and what would run instead."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.launch import (
    Launch,
    SmddpAllGather,
    SmddpAllGatherByMpirun,
    SmddpAllReduce,
    Torchrun,
    resolve,
)
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.sections.hyperparameters import HyperparameterValue
from shoal.settings.settings import Collective, Framework, Launcher, Strategy, Training
from tests.pipelines.inputs import golden

P4D = "ml.p4d.24xlarge"
REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
OPTIONS = "-verbose --NCCL_DEBUG VERSION"
TENSORFLOW = {"framework": Framework.TENSORFLOW}
SDK_CASES: list[tuple[str, dict[str, Any]]] = [
    ("smdistributed", {}),
    (
        "smdistributed with custom_mpi_options",
        {"custom_mpi_options": "-verbose --NCCL_DEBUG VERSION"},
    ),
    ("pytorchddp", {}),
    ("pytorchddp with custom_mpi_options", {"custom_mpi_options": "-verbose --NCCL_DEBUG VERSION"}),
    ("torch_distributed", {"collective": Collective.ALLGATHER}),
    (
        "smdistributed with SMDATAPARALLEL_OPTIMIZE_SDP",
        {
            "collective": Collective.ALLGATHER,
            "launcher": Launcher.MPIRUN,
            "custom_mpi_options": OPTIONS,
        },
    ),
    ("torch_distributed", {"strategy": Strategy.TORCHRUN}),
    ("pytorchddp", {"strategy": Strategy.PYTORCHDDP}),
    ("mpi", {"strategy": Strategy.HOROVOD}),
    (
        "mpi with processes and options",
        {"strategy": Strategy.HOROVOD, "processes_per_host": 4, "custom_mpi_options": OPTIONS},
    ),
    ("nothing", {"strategy": Strategy.NONE, "instance_count": 1}),
    ("tensorflow: smdistributed", {**TENSORFLOW, "custom_mpi_options": OPTIONS}),
    (
        "tensorflow: mpi",
        {
            **TENSORFLOW,
            "strategy": Strategy.HOROVOD,
            "processes_per_host": 8,
            "custom_mpi_options": OPTIONS,
        },
    ),
    ("tensorflow: parameter_server", {**TENSORFLOW, "strategy": Strategy.PARAMETER_SERVER}),
    (
        "tensorflow: multi_worker_mirrored_strategy",
        {**TENSORFLOW, "strategy": Strategy.MULTI_WORKER_MIRRORED},
    ),
    ("tensorflow: nothing", {**TENSORFLOW, "strategy": Strategy.MIRRORED, "instance_count": 1}),
    ("tensorflow: nothing", {**TENSORFLOW, "strategy": Strategy.NONE, "instance_count": 1}),
]


def launch(region: str = "us-east-1", **keys: Any) -> Launch:
    return resolve(Training(**{"instance_count": 2, "instance_type": P4D, **keys}), region)


def refusals(region: str = "us-east-1", **keys: Any) -> list[str]:
    with pytest.raises(LaunchError) as caught:
        launch(region, **keys)
    return str(caught.value).splitlines()


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
    assert set(golden("sdk_v2")["cases"]) - {case for case, _ in SDK_CASES} == {
        "smdistributed and torch_distributed"
    }


def test_a_tensorflow_job_without_an_output_path_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="needs output_path"):
        launch(**TENSORFLOW).for_job("s3://code/sourcedir.tar.gz", "job-1", {})


def test_a_job_with_more_hyperparameters_than_sagemaker_takes_is_a_mistake() -> None:
    with pytest.raises(
        ValueError,
        match="a job takes 100 hyperparameters, and this one has 101, the toolkit's included",
    ):
        launch().for_job(
            "s3://code/sourcedir.tar.gz",
            "job-1",
            {f"option-{number}": number for number in range(93)},
        )


def test_sdk_v2_asking_for_both_gets_torchrun_and_so_we_offer_one_at_a_time() -> None:
    both = golden("sdk_v2")["cases"]["smdistributed and torch_distributed"]["hyperparameters"]
    assert {
        "sagemaker_distributed_dataparallel_enabled",
        "sagemaker_torch_distributed_enabled",
    } <= set(both)
    assert "sagemaker_torch_distributed_enabled" not in launch().hyperparameters


def test_each_strategy_is_one_contract() -> None:
    by_mpirun = launch(collective=Collective.ALLGATHER, launcher=Launcher.MPIRUN)
    chosen = [
        launch(),
        launch(collective=Collective.ALLGATHER),
        by_mpirun,
        launch(strategy=Strategy.TORCHRUN),
    ]
    assert [type(one.contract) for one in chosen] == [
        SmddpAllReduce,
        SmddpAllGather,
        SmddpAllGatherByMpirun,
        Torchrun,
    ]


@pytest.mark.parametrize(
    "strategy", [Strategy.SMDDP, Strategy.PYTORCHDDP, Strategy.TORCHRUN, Strategy.HOROVOD]
)
def test_every_launcher_of_several_ranks_is_told_how_many_and_without_the_key_is_what_sdk_v2_starts(
    strategy: Strategy,
) -> None:
    with_ranks, without_ranks = (
        launch(strategy=strategy, processes_per_host=4).hyperparameters,
        launch(strategy=strategy).hyperparameters,
    )
    assert dict(with_ranks.items() - without_ranks.items()) == {
        "sagemaker_mpi_num_of_processes_per_host": "4"
    }


def test_images_are_full_tags_of_the_regions_registry() -> None:
    assert launch().images == (
        f"{REGISTRY}/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker",
        f"{REGISTRY}/pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker",
        f"{REGISTRY}/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker",
    )


def test_regions_with_a_registry_of_their_own_use_it() -> None:
    assert launch("eu-south-1").image_uri.startswith(
        "692866216735.dkr.ecr.eu-south-1.amazonaws.com/"
    )


def test_training_without_gpus_takes_the_cpu_image() -> None:
    assert (
        "/pytorch:2.12.1-cpu-amzn2023-sagemaker"
        in launch(strategy=Strategy.TORCHRUN, instance_type="ml.m5.xlarge").image_uri
    )


def test_an_own_image_replaces_only_the_training_image_and_gives_a_notice() -> None:
    own = launch(image_uri="registry/own@sha256:0123")
    assert own.image_uri == "registry/own@sha256:0123"
    assert own.evaluation_image_uri.startswith(REGISTRY)
    assert "nothing here can check what is in it" in own.notices[0]


def test_a_build_of_aws_own_image_is_known_and_needs_no_notice() -> None:
    assert (
        launch(
            image_uri=(
                f"{REGISTRY}/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker-v1.2"
            )
        ).notices
        == ()
    )


def test_an_image_of_another_region_is_a_notice() -> None:
    uri = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker"  # noqa: E501
    assert launch(image_uri=uri).notices == (
        "training.image_uri lies in eu-west-1, but the job runs in us-east-1",
    )


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"instance_type": "ml.p5.48xlarge"},
            (
                "smddp cannot run on this instance type; it runs only on ml.p4d.24xlarge,"
                " ml.p4de.24xlarge"
            ),
        ),
        ({"instance_type": "ml.g5.48xlarge"}, "smddp cannot run on this instance type"),
        ({"instance_type": "ml.m5.xlarge"}, "smddp cannot run on this instance type"),
        ({"instance_type": "ml.p3.16xlarge"}, "smddp cannot run on this instance type"),
        (
            {"framework_version": "2.6.0"},
            (
                "no image of this PyTorch version contains smddp; these do: 1.11.0, 1.12.0, 1.12.1,"
                " 1.13.1, 2.0.0, 2.0.1, 2.1.0, 2.2.0, 2.3.0"
            ),
        ),
        ({"framework_version": "1.0.0"}, "is not in the table of images; known: 1.11.0"),
        (
            {"instance_type": "ml.p3dn.24xlarge", "collective": Collective.ALLGATHER},
            (
                'training.collective = "allgather": smddp accelerates only allreduce on'
                " ml.p3dn.24xlarge"
            ),
        ),
        (
            {"fallback": Strategy.SMDDP},
            (
                "must be one that can run where smddp cannot; for pytorch: torchrun; use torchrun,"
                " or remove it"
            ),
        ),
        (
            {"strategy": Strategy.TORCHRUN, "fallback": Strategy.TORCHRUN},
            "torchrun needs no fallback",
        ),
        (
            {
                "image_uri": (
                    f"{REGISTRY}/pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker"
                )
            },
            (
                "is AWS's image of PyTorch 2.6.0, but framework_version is 2.3.0; set"
                " framework_version: 2.6.0, or take another image"
            ),
        ),
        (
            {"image_uri": f"{REGISTRY}/pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker"},
            "is AWS's image for CPUs, but ml.p4d.24xlarge has GPUs; take the -gpu- tag",
        ),
        (
            {"image_uri": "pytorch:latest"},
            "must be a full image URI with a tag or a digest, and not :latest",
        ),
        (
            {"image_uri": "registry/own:`id`"},
            "must be a full image URI with a tag or a digest, and not :latest",
        ),
        (
            {"image_uri": "registry/Own:1"},
            "must be a full image URI with a tag or a digest, and not :latest",
        ),
        (
            {"image_uri": "registry:5000/own"},
            "must be a full image URI with a tag or a digest, and not :latest",
        ),
        (
            {"strategy": Strategy.TORCHRUN, "custom_mpi_options": "-verbose"},
            "is only read by mpirun, and torchrun is started by torchrun",
        ),
        (
            {"collective": Collective.ALLGATHER, "custom_mpi_options": "-x A=1"},
            "smddp with AllGather is started by torchrun",
        ),
        (
            {"collective": Collective.ALLGATHER, "framework_version": "2.0.0"},
            (
                "smddp 1.8.0 in the image of 2.0.0 has no AllGather for FSDP; these have: 2.0.1,"
                " 2.1.0, 2.2.0, 2.3.0, 2.4.0, 2.5.1"
            ),
        ),
        (
            {
                "collective": Collective.ALLGATHER,
                "launcher": Launcher.MPIRUN,
                "custom_mpi_options": "-x SMDATAPARALLEL_OPTIMIZE_SDP=true",
            },
            (
                "is the second one: collective: allgather with launcher: mpirun passes it already;"
                " remove it"
            ),
        ),
        (
            {"launcher": Launcher.TORCHRUN},
            "smddp's AllReduce is started by mpirun only; remove it, or set collective: allgather",
        ),
        (
            {"environment": {"SMDATAPARALLEL_OPTIMIZE_SDP": "true"}},
            (
                "is what collective: allgather with launcher: mpirun sets, on every rank; remove"
                " it, and set those two"
            ),
        ),
        (
            {"strategy": Strategy.TORCHRUN, "hyperparameters": {"backend": "smddp"}},
            (
                "asks for smddp, and torchrun is started without its checks; set strategy: smddp"
                " with collective: allgather"
            ),
        ),
        ({"region": "cn-north-1"}, "has no registry of AWS's Deep Learning Containers"),
    ],
)
def test_what_cannot_run_is_one_line(keys: dict[str, Any], line: str) -> None:
    (refusal,) = refusals(**keys)
    assert line in refusal


def test_every_refusal_of_smddp_says_how_to_go_on_without_it() -> None:
    lines = [*refusals(instance_type="ml.p5.48xlarge"), *refusals(framework_version="2.6.0")]
    assert [
        line
        for line in lines
        if not line.endswith("or set training.strategy: torchrun, or training.fallback: torchrun")
    ] == []


def test_allgather_depends_on_the_script_and_says_so() -> None:
    assert (
        "the script's own option must (backend: smddp)"
        in launch(collective=Collective.ALLGATHER).notices[0]
    )


def test_allgather_is_not_asked_for_twice() -> None:
    assert (
        launch(collective=Collective.ALLGATHER, hyperparameters={"backend": "smddp"}).notices == ()
    )


def test_one_node_of_smddp_is_a_notice() -> None:
    assert "gains nothing on one" in launch(instance_count=1).notices[0]


@pytest.mark.parametrize(
    ("version", "text"),
    [("2.4.0", "before November 2024"), ("2.5.1", "AWS's documentation does not list")],
)
def test_what_is_known_of_a_release_is_a_notice(version: str, text: str) -> None:
    assert text in launch(framework_version=version).notices[0]


def test_a_launcher_that_nothing_reads_is_a_notice() -> None:
    assert launch(launcher=Launcher.MPIRUN).notices == (
        "training.launcher is not used: only strategy smddp with collective allgather reads it",
    )


def test_ranks_that_aws_does_not_document_for_smddp_are_a_notice() -> None:
    assert (
        launch(processes_per_host=4)
        .notices[0]
        .endswith("starts 4 ranks on each instance; AWS documents smddp with one per GPU")
    )


@pytest.mark.parametrize("strategy", [Strategy.SMDDP, Strategy.TORCHRUN, Strategy.HOROVOD])
def test_more_ranks_than_gpus_are_one_notice(strategy: Strategy) -> None:
    notices = [
        line
        for line in launch(strategy=strategy, processes_per_host=9).notices
        if "processes_per_host" in line
    ]
    assert notices == [
        (
            "training.processes_per_host: 9 ranks share the 8 GPUs of each ml.p4d.24xlarge; NCCL"
            " takes one rank per GPU"
        ),
    ]


AS_OLD: dict[str, Any] = {"strategy": Strategy.TORCHRUN, "framework_version": "2.3.0"}
"""Of a version that has an image for endpoints too, so that no notice says otherwise."""


@pytest.mark.parametrize(
    "keys", [{"processes_per_host": 8}, {"processes_per_host": 9, "instance_type": "ml.m5.xlarge"}]
)
def test_as_many_ranks_as_gpus_and_ranks_on_cpus_are_no_news(keys: dict[str, Any]) -> None:
    assert launch(**AS_OLD, **keys).notices == ()


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({}, ["NCCL_DEBUG", "MASTER_PORT"]),
        ({"strategy": Strategy.TORCHRUN}, ["NCCL_DEBUG", "MASTER_PORT"]),
        (TENSORFLOW, ["NCCL_DEBUG"]),
        ({**TENSORFLOW, "strategy": Strategy.MULTI_WORKER_MIRRORED}, []),
    ],
)
def test_variables_that_the_toolkit_sets_itself_are_a_notice(
    keys: dict[str, Any], names: list[str]
) -> None:
    variables = {"NCCL_DEBUG": "TRACE", "MASTER_PORT": "1", "NCCL_ALGO": "Ring"}
    notices = [
        line.partition(" ")[0]
        for line in launch(environment=variables, **keys).notices
        if "has no effect" in line
    ]
    assert notices == [f"training.environment.{name}" for name in names]


def test_where_aws_has_no_image_for_endpoints_the_notice_names_the_one_that_serves() -> None:
    newest = launch(strategy=Strategy.TORCHRUN, framework_version="2.10.0")
    assert "/pytorch-inference:2.6.0-cpu-py312" in newest.inference_image_uri
    assert "the endpoint loads the model with that" in newest.notices[0]


@pytest.mark.parametrize(
    ("instance_type", "keys", "told"),
    [
        ("ml.p4d.24xlarge", {"volume_size_gb": 500}, True),
        ("ml.p4d.24xlarge", {}, False),
        ("ml.m5.xlarge", {"volume_size_gb": 500}, False),
    ],
)
def test_a_volumes_size_that_has_no_effect_is_a_notice(
    instance_type: str, keys: dict[str, Any], told: bool
) -> None:
    notices = launch(strategy=Strategy.TORCHRUN, instance_type=instance_type, **keys).notices
    assert any(line.startswith("training.volume_size_gb has no eff") for line in notices) is told


def test_a_collective_that_nothing_reads_is_a_notice() -> None:
    assert launch(**AS_OLD, collective=Collective.ALLREDUCE).notices == (
        "training.collective is not used: only strategy smddp reads it",
    )
