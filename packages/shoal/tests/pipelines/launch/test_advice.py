"""What an error offers instead has passed all rules: who follows it is not refused for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from shoal.launch import resolve
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.settings import Framework, Training

VERSIONS = {
    Framework.PYTORCH: ("1.8.1", "1.11.0", "1.12.1", "1.13.1", "2.0.1", "2.3.0", "2.6.0", "2.10.0"),
    Framework.TENSORFLOW: (
        "2.4.1",
        "2.8.0",
        "2.9.2",
        "2.11.0",
        "2.12.0",
        "2.16.2",
        "2.19.0",
        "2.21.0",
    ),
}
STRATEGIES = {
    Framework.PYTORCH: ("smddp", "pytorchddp", "horovod", "torchrun"),
    Framework.TENSORFLOW: (
        "smddp",
        "horovod",
        "multi_worker_mirrored",
        "parameter_server",
        "mirrored",
    ),
}
TYPES = (
    "ml.p4d.24xlarge",
    "ml.p3dn.24xlarge",
    "ml.p3.16xlarge",
    "ml.g5.12xlarge",
    "ml.p5.48xlarge",
    "ml.m5.xlarge",
    "ml.p6-b200.48xlarge",
)
MORE: tuple[dict[str, Any], ...] = (
    {},
    {"source_dir": "own_code"},
    {"source_dir": "own_code", "image_uri": "mine/image:1"},
    {"custom_mpi_options": "-verbose", "processes_per_host": 2},
    {"hyperparameters": {"backend": "smddp"}, "collective": "allgather"},
    {"fallback": "horovod"},
)


def refused(keys: dict[str, Any]) -> list[str]:
    try:
        resolve(Training(**keys), "us-east-1")
    except LaunchError as error:
        return [problem.line("") for problem in error.problems]
    return []


def versions(line: str) -> Iterator[dict[str, str]]:
    for version, name in re.findall(
        r"training\.framework_version: ([\d.]+) with training\.strategy: (\w+)", line
    ):
        yield {"framework_version": version, "strategy": name}


def offers(line: str) -> Iterator[tuple[str, str]]:
    for kind, names in re.findall(r"training\.(strategy|fallback): (\w+(?: or \w+)*)", line):
        yield from ((kind, name) for name in names.split(" or "))


@pytest.mark.parametrize("framework", list(Framework))
def test_every_offer_of_a_grid_is_accepted_once_what_has_nothing_to_do_with_it_is_mended(
    framework: Framework,
) -> None:
    offer_count = 0
    for version, instance_type, strategy, more in product(
        VERSIONS[framework], TYPES, STRATEGIES[framework], MORE
    ):
        keys = {
            "framework": framework,
            "framework_version": version,
            "instance_type": instance_type,
            "strategy": strategy,
            **more,
        }
        lines = refused({**keys, "instance_count": 2 if strategy != "mirrored" else 1})
        others = [line for line in lines if not list(offers(line))]
        for change in [
            *(
                dict([offer])
                for line in lines
                for offer in offers(line)
                if not list(versions(line))
            ),
            *versions(" ".join(lines)),
        ]:
            offer_count += 1
            again = refused({**keys, "instance_count": 2, **change})
            assert [line for line in again if line not in others] == [], (keys, change)
    assert offer_count > 100


@pytest.mark.parametrize("version", ["2.16.2", "2.19.0"])
def test_horovod_is_not_offered_where_the_image_lacks_it(version: str) -> None:
    (line,) = refused(
        {"framework": Framework.TENSORFLOW, "framework_version": version, "instance_count": 2}
    )
    assert list(offers(line)) == [
        ("strategy", "multi_worker_mirrored"),
        ("fallback", "multi_worker_mirrored"),
    ]


@pytest.mark.parametrize("version", ["1.11.0", "1.12.1"])
def test_where_no_strategy_is_left_another_version_is_offered(version: str) -> None:
    (line,) = refused(
        {"framework_version": version, "instance_type": "ml.g5.12xlarge", "source_dir": "mine"}
    )
    assert line.endswith(
        "choose one of them, or set training.framework_version: 1.13.1 with training.strategy:"
        " torchrun"
    )


REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    ("framework", "version", "image", "smddp"),
    [
        (Framework.PYTORCH, "1.8.1", "pytorch-training:1.8.1-gpu-py36-cu111-ubuntu18.04", "1.2.3"),
        (
            Framework.PYTORCH,
            "1.10.2",
            "pytorch-training:1.10.2-gpu-py38-cu113-ubuntu20.04-sagemaker",
            "1.4.0",
        ),
        (
            Framework.TENSORFLOW,
            "2.8.0",
            "tensorflow-training:2.8.0-gpu-py39-cu112-ubuntu20.04-sagemaker",
            "1.3.0",
        ),
        (
            Framework.TENSORFLOW,
            "2.4.1",
            "tensorflow-training:2.4.1-gpu-py37-cu110-ubuntu18.04",
            "1.2.0",
        ),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_smddp_of_long_ago_is_refused_because_the_page_no_longer_lists_it(
    framework: Framework, version: str, image: str, smddp: str, named: bool
) -> None:
    keys = {
        "framework": framework,
        "framework_version": version,
        "source_dir": "mine",
        "instance_type": "ml.p3dn.24xlarge",
    }
    (line,) = refused({**keys, "image_uri": f"{REGISTRY}/{image}"} if named else keys)
    assert (
        "AWS's page no longer lists smddp for"
        f" {'PyTorch' if framework == 'pytorch' else 'TensorFlow'} {version}" in line
    )
    assert f"(AWS's guide of 2023: version {smddp}); it lists it for: " in line


def test_of_a_version_between_two_rows_nobody_says_that_it_contains_none() -> None:
    (line,) = refused(
        {
            "framework_version": "2.4.1",
            "image_uri": f"{REGISTRY}/pytorch-training:2.4.1-gpu-py311-cu124-ubuntu22.04-sagemaker",
        }
    )
    assert "AWS's pages name no smddp for PyTorch 2.4.1; they do for: 1.11.0" in line
