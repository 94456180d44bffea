"""Images that would not train, or not as asked, are named before a job pays for them."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.launch import resolve, tables
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.settings import Framework, Strategy, Training
from tests.pipelines.launch.shipped import shipped

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
HUGGING_FACE = "huggingface-pytorch-training:2.3.0-transformers4.48.0-gpu-py311-cu121-ubuntu20.04"


def notices(uri: str, **keys: Any) -> tuple[str, ...]:
    return resolve(shipped(**{"image_uri": uri, "instance_count": 2, **keys}), "us-east-1").notices


NEWER = f"{REGISTRY}/pytorch:2.15.0-cu133-amzn2023-sagemaker"
TORCHRUN: dict[str, Any] = {"strategy": Strategy.TORCHRUN}


def test_an_image_that_may_lack_the_toolkit_module_is_told_what_it_would_ignore() -> None:
    uri = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"
    *_, replaced, trap = [
        line for line in notices(uri, **TORCHRUN) if line.startswith("training.image_uri")
    ]
    assert "nothing here can check what is in it" in replaced
    assert "SAGEMAKER_TRAINING_MODULE=sagemaker_pytorch_container.training:main" in trap
    assert trap.endswith("ignores the hyperparameters of torchrun")


def test_an_image_needs_no_row_in_the_table_and_the_rest_runs_in_the_nearest_one() -> None:
    launch = resolve(Training(**TORCHRUN, image_uri=NEWER, framework_version="2.15.0"), "us-east-1")
    assert "/pytorch:2.14.0-cpu-" in launch.evaluation_image_uri
    assert (
        "training.framework_version 2.15.0 is not in the table of images: evaluation and endpoint"
        " run in those of 2.14.0" in launch.notices
    )


def test_aws_repository_without_training_in_its_name_starts_the_toolkit_on_gpus_only() -> None:
    assert not [
        line for line in notices(NEWER, **TORCHRUN, framework_version="2.15.0") if "MODULE" in line
    ]
    for_cpus = NEWER.replace("cu133", "cpu")
    with pytest.raises(LaunchError, match=r"is AWS's image for CPUs, but ml\.p4d"):
        notices(for_cpus, **TORCHRUN, framework_version="2.15.0")


def test_an_own_image_may_bring_an_smddp_that_the_table_does_not_name_but_none_that_was_never_made() -> (  # noqa: E501
    None
):
    older = notices("mine/image:1", framework_version="1.12.5", source_dir="mine")
    assert (
        "training.framework_version: AWS's table of smddp has no 1.12.5; training.image_uri must"
        " bring it" in older
    )
    with pytest.raises(
        LaunchError,
        match=r"there is no smddp for PyTorch after 2\.5\.1, so no image can contain it",
    ):
        notices("mine/image:1", framework_version="2.6.0")


def test_no_image_has_our_scripts_python_with_a_framework_that_does_not_exist_for_it() -> None:
    with pytest.raises(
        LaunchError,
        match=(
            r"training_code/mnist/pytorch needs Python 3\.10, for which PyTorch exists from"
            r" 1\.11\.0 on"
        ),
    ):
        notices("mine/image:1", framework_version="1.8.1")


def test_an_image_of_aws_by_digest_is_a_notice() -> None:
    (line,) = notices(f"{REGISTRY}/pytorch-training@sha256:{'0' * 64}", framework_version="2.1.0")
    assert line.endswith(
        "names AWS's image without a tag that says its version: nothing here can check that it is"
        " 2.1.0"
    )


def test_the_module_is_that_of_the_framework() -> None:
    assert (
        "sagemaker_tensorflow_container.training:main"
        in notices("mine/image:1", framework=Framework.TENSORFLOW)[1]
    )


def test_aws_images_with_the_toolkit_need_no_notice() -> None:
    assert notices(f"{REGISTRY}/{HUGGING_FACE}", **TORCHRUN, framework_version="2.3.0") == ()


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"framework_version": "2.5.1"},
            r"is AWS's image of PyTorch 2\.3\.0, but framework_version is 2\.5\.1",
        ),
        (
            {"framework": Framework.TENSORFLOW},
            "is AWS's image of PyTorch, but framework is tensorflow",
        ),
        (
            {"strategy": Strategy.HOROVOD},
            r"AWS's GPU image of PyTorch 2\.3\.0 does not contain Horovod",
        ),
    ],
)
def test_hugging_faces_tags_are_read_too(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(LaunchError, match=line):
        notices(f"{REGISTRY}/{HUGGING_FACE}", **{"framework_version": "2.3.0", **keys})


def test_the_advice_for_a_short_tag_is_a_version_that_the_file_may_have() -> None:
    with pytest.raises(LaunchError, match=r"set framework_version: 2\.8\.0, or take another image"):
        notices(
            f"{REGISTRY}/pytorch-training:2.8-gpu-py312-cu129-ubuntu22.04-sagemaker-v1", **TORCHRUN
        )


@pytest.mark.parametrize("version", ["2.8.0", "2.8.1"])
def test_a_short_tag_is_of_every_patch_version(version: str) -> None:
    uri = f"{REGISTRY}/pytorch-training:2.8-gpu-py312-cu129-ubuntu22.04-sagemaker-v1"
    assert not [
        line
        for line in notices(uri, **TORCHRUN, framework_version=version)
        if "AWS's image of" in line
    ]


@pytest.mark.parametrize(
    ("image", "line"),
    [
        (
            "pytorch-inference:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker",
            "is an image of AWS's that serves models",
        ),
        (
            "pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-ec2",
            "is an image of AWS's that is made for EC2",
        ),
        (
            "pytorch-training:1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker",
            r"has Python 3\.9, and training_code/mnist/pytorch needs 3\.10",
        ),
        (
            "tensorflow-training:2.11.0-gpu-py39-cu112-ubuntu20.04-sagemaker",
            "is AWS's image of TensorFlow, but framework is pytorch",
        ),
    ],
)
def test_aws_images_that_would_not_train_are_refused(image: str, line: str) -> None:
    with pytest.raises(LaunchError, match=line):
        notices(f"{REGISTRY}/{image}")


def test_smddp_in_an_image_of_hugging_faces_is_a_notice() -> None:
    found = notices(f"{REGISTRY}/{HUGGING_FACE}", framework_version="2.3.0")
    assert any("is one of Hugging Face's, for which AWS names no smddp" in each for each in found)
    other = notices(f"{REGISTRY}/{HUGGING_FACE}", **TORCHRUN, framework_version="2.3.0")
    assert not any("one of Hugging Face's" in each for each in other)


def test_smddp_in_an_image_in_which_users_did_not_find_it_is_refused() -> None:
    tag = "2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04"
    uri = f"{REGISTRY}/huggingface-pytorch-training:{tag}"
    with pytest.raises(LaunchError, match=r"as users found: .* issue 3989"):
        notices(uri, framework_version="2.1.0")
    assert notices(uri, **TORCHRUN, framework_version="2.1.0") == ()


@pytest.mark.parametrize(
    ("repository", "runs"),
    [("pytorch-inference", True), ("tensorflow-inference", True), ("djl-inference", False)],
)
def test_only_awss_image_of_a_framework_runs_the_workloads_script(
    repository: str, runs: bool
) -> None:
    image = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{repository}:1.2.3-gpu"
    assert tables.runs_inference_script(image) is runs
