"""The examples of AWS's material that this project comes from, as environment files.

Today's tables accept each, or say why not. The comment that opens each file says which example it
is. The material is of 2020 to 2023; instances, versions and images have disappeared since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from tests.repository import ROOT

FOLDER = Path(__file__).parent / "environments"
SMDDP, MPI, TORCHRUN = (
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_mpi_enabled",
    "sagemaker_torch_distributed_enabled",
)
SERVERS, WORKERS = (
    "sagemaker_parameter_server_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
)
ACCEPTED = {
    "pytorch-p3dn": (SMDDP, "pytorch-training:2.3.0-gpu"),
    "mpi-corrected": (SMDDP, "pytorch-training:2.3.0-gpu"),
    "extended-today": (SMDDP, "111122223333.dkr.ecr.us-east-1.amazonaws.com/mnist:1"),
    "own-container": (SMDDP, "111122223333.dkr.ecr.us-east-1.amazonaws.com/own-container:1"),
    "pytorch-1-13": (SMDDP, "pytorch-training:1.13.1-gpu-py39"),
    "fallback": (TORCHRUN, "pytorch-training:2.3.0-gpu"),
    "tf-smddp-p4d": (SMDDP, "tensorflow-training:2.11.0-gpu"),
    "tf-smddp-p3dn": (SMDDP, "tensorflow-training:2.11.0-gpu"),
    "tf-horovod": (MPI, "tensorflow-training:2.12.0-gpu"),
    "horovod-on-cpus": (MPI, "tensorflow-training:2.12.0-cpu"),
    "co-located": (MPI, "tensorflow-training:2.12.0-cpu"),
    "parameter-server": (SERVERS, "tensorflow-training:2.12.0-cpu"),
    "multi-worker": (WORKERS, "tensorflow-training:2.12.0-gpu"),
    "mirrored": ("", "tensorflow-training:2.12.0-gpu"),
}
"""Example -> the hyperparameter that starts it (`mirrored` needs none), and its image."""
P3_16 = (
    'instance_type = "ml.p3.16xlarge": smddp cannot run on this instance type (AWS\'s guide of'
    " 2023 named it; today's does not)"
)
REFUSED = {
    "pytorch-1-8-1": (
        P3_16,
        (
            'framework_version = "1.8.1": AWS\'s image of it has Python 3.6, and'
            " training_code/mnist/pytorch needs 3.10"
        ),
    ),
    "pytorch-p3-16": (P3_16,),
    "pytorch-1-8-1-p3dn": ('framework_version = "1.8.1": AWS\'s image of it has Python 3.6',),
    "pytorch-1-6": ('framework_version = "1.6.0": AWS\'s image of it has Python 3.6',),
    "tf-2-4-1-p3dn": (
        (
            'framework_version = "2.4.1": AWS\'s image of it has Python 3.7, and'
            " training_code/mnist/tensorflow needs 3.9"
        ),
    ),
    "tf-2-3-mirrored": ('framework_version = "2.3.0": AWS\'s image of it has Python 3.7',),
    "tf-2-3-horovod": ('framework_version = "2.3.0": AWS\'s image of it has Python 3.7',),
    "tf-mpi-options": (
        (
            'custom_mpi_options = "-verbose -x NCCL_DEBUG=VERSION": `-x NCCL_DEBUG=...` is the'
            " second one"
        ),
    ),
    "tf-sdk-1": (
        (
            "hyperparameters.sagemaker_distributed_dataparallel_enabled = true: names that start"
            " with sagemaker_ belong to the launch"
        ),
    ),
    "tf-2-4-1": (
        P3_16,
        (
            'framework_version = "2.4.1": AWS\'s image of it has Python 3.7, and'
            " training_code/mnist/tensorflow needs 3.9"
        ),
    ),
    "tf-2-3": (
        (
            'framework_version = "2.3.0": SDK v2 refuses multi_worker_mirrored before TensorFlow'
            " 2.9.0, and so does Shoal"
        ),
        (
            'framework_version = "2.3.0": AWS\'s image of it has Python 3.7, and'
            " training_code/mnist/tensorflow needs 3.9"
        ),
    ),
    "mpi-options": (
        (
            'custom_mpi_options = "-verbose -x NCCL_DEBUG=VERSION": `-x NCCL_DEBUG=...` is the'
            " second one"
        ),
    ),
    "sdk-1": (
        (
            "hyperparameters.sagemaker_distributed_dataparallel_enabled = true: names that start"
            " with sagemaker_ belong to the launch"
        ),
    ),
    "extended": (
        (
            'framework_version = "1.8.1": training_code/mnist/pytorch needs Python 3.10, for which'
            " PyTorch exists from 1.11.0 on"
        ),
    ),
    "base-image": (
        "is AWS's image of PyTorch 1.8.1, but framework_version is 2.3.0",
        "has Python 3.6, and training_code/mnist/pytorch needs 3.10",
    ),
    "mirrored-two": ("instance_count = 2: mirrored runs on one instance",),
    "one-server": ("instance_count = 1: parameter_server needs at least 2 instances",),
}
"""Example -> how each of its lines goes on after `training.`."""


def example(name: str) -> Environment:
    return load(FOLDER / f"{name}.yaml", f"environments/{name}.yaml", ROOT)


def test_every_example_is_accepted_or_refused_here() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yaml")) == sorted([*ACCEPTED, *REFUSED])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_says_where_it_comes_from(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    sources = (
        "data-parallel-use-api.md",
        "Distributed Data Parallel MNIST",
        "How does SageMaker support",
        "Parameter Server and Horovod",
    )
    assert first.startswith("# ")
    assert any(source in first for source in sources)


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_example_that_can_run_becomes_a_pipeline_that_starts_it(name: str) -> None:
    settings, (enabled, image) = example(name), ACCEPTED[name]
    train = check(settings).definition["Steps"][0]["Arguments"]
    switches = {
        key: value for key, value in train["HyperParameters"].items() if key.endswith("_enabled")
    }
    assert switches == ({enabled: "true"} if enabled else {})
    assert image in train["AlgorithmSpecification"]["TrainingImage"]


@pytest.mark.parametrize("name", REFUSED)
def test_an_example_that_cannot_run_is_refused_with_the_true_reason(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(example(name))
    lines = str(caught.value).splitlines()
    assert len(lines) == len(REFUSED[name])
    for line, reason in zip(lines, REFUSED[name], strict=True):
        assert f"training.{reason}" in line or reason in line, line


@pytest.mark.parametrize(
    ("name", "image", "title", "smddp"),
    [
        (
            "pytorch-1-8-1-p3dn",
            "pytorch-training:1.8.1-gpu-py36-cu111-ubuntu18.04",
            "PyTorch 1.8.1",
            "1.2.3",
        ),
        ("pytorch-1-6", None, "PyTorch 1.6.0", "1.0.0"),
        (
            "tf-2-4-1-p3dn",
            "tensorflow-training:2.4.1-gpu-py37-cu110-ubuntu18.04",
            "TensorFlow 2.4.1",
            "1.2.0",
        ),
    ],
)
def test_with_a_script_of_that_time_the_reason_is_that_aws_no_longer_lists_its_smddp(
    name: str, image: str | None, title: str, smddp: str
) -> None:
    settings = example(name)
    uri = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{image}" if image else None
    theirs: dict[str, Any] = {"source_dir": "their_code", "min_python": None}
    changes = theirs | {"image_uri": uri, "instance_type": "ml.p3dn.24xlarge"}
    with pytest.raises(ConfigError) as caught:
        check(
            settings.model_copy(update={"training": settings.training.model_copy(update=changes)})
        )
    (line,) = str(caught.value).splitlines()
    assert (
        f"AWS's page no longer lists smddp for {title} (AWS's guide of 2023: version {smddp}); it"
        " lists it for: " in line
    )


def test_what_torchrun_replaces_is_told() -> None:
    notices = check(example("fallback")).notices
    assert any(
        notice.startswith("smddp -> torchrun: training.instance_type = ml.p3.16xlarge")
        for notice in notices
    )


@pytest.mark.parametrize("name", ["extended-today", "own-container"])
def test_an_image_of_ones_own_is_told_what_it_must_set(name: str) -> None:
    assert any(
        "must set SAGEMAKER_TRAINING_MODULE" in notice for notice in check(example(name)).notices
    )


def test_instances_are_co_located_in_one_subnet() -> None:
    settings = example("co-located")
    train = check(settings).definition["Steps"][0]["Arguments"]
    assert (train["ResourceConfig"]["InstanceCount"], len(train["VpcConfig"]["Subnets"])) == (
        {"Get": "Parameters.InstanceCount"},
        1,
    )
