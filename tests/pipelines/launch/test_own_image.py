"""Images that would not train, or not as asked, are named before a job pays for them."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import LaunchError
from config.settings import Framework, Training
from pipelines.launch import resolve

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"


def notices(uri: str, **keys: Any) -> tuple[str, ...]:
    return resolve(Training(**{"image_uri": uri, "instance_count": 2, **keys}), "us-east-1").notices


@pytest.mark.parametrize("uri", ["111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1", f"{REGISTRY}/pytorch:2.13.0-cu130-sagemaker"])
def test_an_image_that_may_lack_the_toolkit_module_is_told_what_it_would_ignore(uri: str) -> None:
    replaced, trap = notices(uri)
    assert "nothing here can check what is in it" in replaced
    assert "SAGEMAKER_TRAINING_MODULE=sagemaker_pytorch_container.training:main" in trap
    assert trap.endswith("ignores the hyperparameters of smddp with AllReduce and says nothing")


def test_the_module_is_that_of_the_framework() -> None:
    assert "sagemaker_tensorflow_container.training:main" in notices("mine/image:1", framework=Framework.TENSORFLOW)[1]


def test_aws_images_with_the_toolkit_need_no_notice() -> None:
    assert notices(f"{REGISTRY}/huggingface-pytorch-training:2.3.0-transformers4.48.0-gpu-py311-cu121-ubuntu20.04") == ()


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ("pytorch-inference:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker", "is an image of AWS's that serves models"),
        ("pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-ec2", "is an image of AWS's that is made for EC2"),
        ("tensorflow-training:2.11.0-gpu-py39-cu112-ubuntu20.04-sagemaker", "is AWS's image of TensorFlow, but framework is pytorch"),
    ],
)
def test_aws_images_that_would_not_train_are_refused(image: str, line: str) -> None:
    with pytest.raises(LaunchError, match=line):
        notices(f"{REGISTRY}/{image}")
