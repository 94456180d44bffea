"""Strategies, frameworks, hosts and versions that do not go together are refused with the
reason.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from shoal.launch import Launch, resolve, tables
from shoal.launch.tables import strategy
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.sections.strategies import strategies_of
from shoal.settings.settings import Collective, Framework, Launcher, Strategy, Training
from tests.pipelines.launch.shipped import shipped
from tests.repository import ROOT

TENSORFLOW = {"framework": Framework.TENSORFLOW}
COMBINATIONS = [
    (framework, Strategy(name)) for framework in Framework for name in strategies_of(framework)
]


def launch(**keys: Any) -> Launch:
    return resolve(shipped(**keys), "us-east-1", root=ROOT)


def refusals(**keys: Any) -> list[str]:
    with pytest.raises(LaunchError) as caught:
        launch(**keys)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(("framework", "name"), COMBINATIONS)
def test_every_strategy_runs_with_its_defaults(framework: Framework, name: Strategy) -> None:
    launched = launch(framework=framework, strategy=name, instance_count=strategy(name).hosts.min)
    assert launched.contract.launcher == strategy(name).launcher
    repository = tables.image_tags(framework)[launched.case.version].repository
    assert f"/{repository}:" in launched.image_uri


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        (framework, name)
        for framework in Framework
        for name in Strategy
        if (framework, name) not in COMBINATIONS
    ],
)
def test_a_strategy_of_the_other_framework_is_refused_with_those_that_can(
    framework: Framework, name: Strategy
) -> None:
    lines = refusals(framework=framework, strategy=name, instance_count=2)
    assert (
        f'training.strategy = "{name}": is not a strategy of {framework}; these are: smddp'
        in lines[0]
    )


def test_a_strategy_of_the_other_framework_is_one_line_whatever_else_it_would_need() -> None:
    assert len(refusals(strategy=Strategy.PARAMETER_SERVER, fallback=Strategy.TORCHRUN)) == 1


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"strategy": Strategy.NONE, "instance_count": 2},
            (
                "none runs on one instance; the others would each train on their own and overwrite"
                " the model; use 1, or"
            ),
        ),
        (
            {**TENSORFLOW, "strategy": Strategy.MIRRORED, "instance_count": 2},
            "mirrored runs on one instance",
        ),
        (
            {**TENSORFLOW, "strategy": Strategy.PARAMETER_SERVER},
            "parameter_server needs at least 2 instances; use 2 or more",
        ),
        (
            {**TENSORFLOW, "framework_version": "2.12.0"},
            "no image of this TensorFlow version contains smddp; these do: 2.9.2, 2.10.1, 2.11.0",
        ),
        (
            {**TENSORFLOW, "collective": Collective.ALLGATHER},
            "smddp has AllGather only for PyTorch, with strategy: smddp",
        ),
        (
            {"strategy": Strategy.PYTORCHDDP, "collective": Collective.ALLGATHER},
            "smddp has AllGather only for PyTorch",
        ),
        (
            {"strategy": Strategy.PYTORCHDDP, "instance_type": "ml.g5.48xlarge"},
            "smddp cannot run on this instance type",
        ),
        (
            {"instance_type": "ml.p3.16xlarge"},
            (
                "on this instance type (AWS's guide of 2023 named it; today's does not); it runs"
                " only on"
            ),
        ),
        (
            {"strategy": Strategy.NONE, "processes_per_host": 8},
            "is only read by mpirun and torchrun, and none is started by python; remove it",
        ),
        (
            {"strategy": Strategy.HOROVOD, "custom_mpi_options": "-x NCCL_DEBUG=INFO"},
            "is the second one",
        ),
        (
            {"custom_mpi_options": "-x A=" + "b" * 2494},
            (
                "is sent as 2501 characters, quotes and what Shoal adds included; SageMaker allows"
                " 2500"
            ),
        ),
        (
            {
                "custom_mpi_options": "-x A=" + "b" * 2460,
                "collective": Collective.ALLGATHER,
                "launcher": Launcher.MPIRUN,
            },
            "is sent as 2503 characters",
        ),
        (
            {
                **TENSORFLOW,
                "strategy": Strategy.MULTI_WORKER_MIRRORED,
                "custom_mpi_options": "-verbose",
            },
            "is only read by mpirun, and multi_worker_mirrored is started by python",
        ),
    ],
)
def test_what_cannot_run_is_one_line(keys: dict[str, Any], line: str) -> None:
    (refusal,) = refusals(**keys)
    assert line in refusal


@pytest.mark.parametrize(
    ("framework", "version", "reason"),
    [
        (
            Framework.PYTORCH,
            "1.8.1",
            "AWS's image of it has Python 3.6, and training_code/mnist/pytorch needs 3.10; known:"
            " 2.0.0",
        ),
        (
            Framework.PYTORCH,
            "1.13.1",
            "AWS's image of it has Python 3.9, and training_code/mnist/pytorch needs 3.10; known:"
            " 2.0.0",
        ),
        (
            Framework.TENSORFLOW,
            "2.4.1",
            (
                "AWS's image of it has Python 3.7, and training_code/mnist/tensorflow needs 3.9;"
                " known: 2.9.2"
            ),
        ),
    ],
)
def test_versions_whose_images_are_too_old_are_refused_for_that(
    framework: Framework, version: str, reason: str
) -> None:
    (refusal,) = refusals(framework=framework, framework_version=version)
    assert reason in refusal


def test_versions_before_what_the_scripts_need_are_refused_in_an_image_of_ones_own_too() -> None:
    keys = {"min_framework_version": "2.4.0", "strategy": Strategy.TORCHRUN, "source_dir": "mine"}
    assert launch(**keys, framework_version="2.4.0").image_uri
    for image in ({}, {"image_uri": "mine/image:1"}):
        (refusal,) = refusals(**keys, framework_version="2.3.0", **image)
        assert '"2.3.0": mine needs PyTorch 2.4.0 or later; use 2.4.0 or later' in refusal


@pytest.mark.parametrize(
    ("framework", "version"), [(Framework.PYTORCH, "1.13.1"), (Framework.PYTORCH, "1.11.0")]
)
def test_the_python_of_our_scripts_is_no_matter_of_a_source_dir_of_ones_own(
    framework: Framework, version: str
) -> None:
    launched = launch(
        framework=framework, framework_version=version, source_dir="mine", instance_count=2
    )
    assert f"/pytorch-training:{version}-gpu-py3" in launched.image_uri


def test_multi_worker_mirrored_before_2_9_is_refused_as_sdk_v2_does() -> None:
    lines = refusals(
        **TENSORFLOW, strategy=Strategy.MULTI_WORKER_MIRRORED, framework_version="2.7.1"
    )
    assert (
        "SDK v2 refuses multi_worker_mirrored before TensorFlow 2.9.0, and so does Shoal"
        in lines[0]
    )
    assert "AWS's image of it has Python 3.8" in lines[1]


def test_torchrun_before_1_13_is_refused_as_sdk_v2_does() -> None:
    (line,) = refusals(strategy=Strategy.TORCHRUN, framework_version="1.12.1", source_dir="mine")
    assert "SDK v2 refuses torchrun before PyTorch 1.13.1, and so does Shoal" in line
    assert line.endswith("; use 1.13.1 or later")


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {
                "strategy": Strategy.TORCHRUN,
                "framework_version": "2.10.0",
                "instance_type": "ml.p3.16xlarge",
            },
            (
                "has V100 GPUs, which the image's CUDA 13.0 does not support: 12.9 is the last that"
                " does; use an earlier framework version"
            ),
        ),
        (
            {
                **TENSORFLOW,
                "strategy": Strategy.MIRRORED,
                "framework_version": "2.11.0",
                "instance_type": "ml.p5.48xlarge",
            },
            (
                "has H100 GPUs, which the image's CUDA 11.2 does not support: 11.8 and later do;"
                " use a later framework version"
            ),
        ),
        (
            {
                "strategy": Strategy.TORCHRUN,
                "instance_type": "ml.p6-b200.48xlarge",
                "framework_version": "2.3.0",
                "image_uri": (
                    "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker"
                ),
            },
            "has B200 GPUs, which the image's CUDA 12.1 does not support",
        ),
    ],
)
def test_gpus_that_the_images_cuda_does_not_support_are_refused(
    keys: dict[str, Any], line: str
) -> None:
    (refusal,) = refusals(**keys)
    assert line in refusal


def test_the_cuda_of_an_image_of_ones_own_is_not_guessed() -> None:
    keys: dict[str, Any] = {
        "strategy": Strategy.TORCHRUN,
        "instance_type": "ml.p6-b200.48xlarge",
        "image_uri": "mine/image:1",
    }
    assert "nothing here can check what is in it" in launch(**keys).notices[0]


WITHOUT_HOROVOD = [
    (
        {"framework_version": "2.0.1", "instance_type": "ml.m5.xlarge"},
        "AWS's CPU image of PyTorch 2.0.1 does not contain Horovod",
    ),
    (
        {"framework_version": "2.3.0"},
        (
            "AWS's GPU image of PyTorch 2.3.0 does not contain Horovod (the last GPU one that does:"
            " 2.0.1)"
        ),
    ),
    (
        {**TENSORFLOW, "framework_version": "2.19.0"},
        "TensorFlow 2.19.0 does not contain Horovod (the last GPU one that does: 2.12.0)",
    ),
]


@pytest.mark.parametrize(("keys", "line"), WITHOUT_HOROVOD)
def test_images_without_horovod_are_refused_with_where_to_get_it(
    keys: dict[str, Any], line: str
) -> None:
    (refusal,) = refusals(strategy=Strategy.HOROVOD, **keys)
    assert line in refusal
    assert (
        "name horovod in requirements.txt of source_dir, extend the image and name it in"
        " training.image_uri, or set" in refusal
    )


def test_a_version_without_an_image_is_not_said_to_lack_horovod() -> None:
    (line,) = refusals(strategy=Strategy.HOROVOD, framework_version="99.0.0")
    assert "is not in the table of images" in line


def test_an_earlier_version_is_no_advice_where_our_scripts_cannot_run_in_it() -> None:
    keys: dict[str, Any] = {
        "strategy": Strategy.HOROVOD,
        "framework_version": "2.0.0",
        "instance_type": "ml.m5.xlarge",
    }
    advice = [
        refusals(**keys)[0].partition(": 1.12.1); ")[2],
        refusals(**keys, source_dir="mine")[0].partition(": 1.12.1); ")[2],
    ]
    assert [text.split(",")[0] for text in advice] == [
        "name horovod in requirements.txt of source_dir",
        "use 1.12.1 or earlier",
    ]


def source_dir(root: Path, **files: str) -> Path:
    """Return a repository whose folder `mine` has these files."""
    (root / "mine").mkdir()
    for name, text in files.items():
        (root / "mine" / name.replace("_", ".", 1)).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    "line",
    [
        "horovod",
        "Horovod[pytorch]==0.28.1  # compiled",
        "git+https://example.com/horovod#egg=horovod",
    ],
)
def test_a_requirement_brings_horovod_and_its_price_is_a_notice(tmp_path: Path, line: str) -> None:
    root = source_dir(tmp_path, requirements_txt=f"# what we need\nnumpy\n{line}\n")
    launched = resolve(
        Training(strategy=Strategy.HOROVOD, framework_version="2.3.0", source_dir="mine"),
        "us-east-1",
        root=root,
    )
    assert launched.notices == (
        (
            "horovod in requirements.txt is compiled on every instance at the start: that needs a"
            " compiler and a way to a package index"
        ),
    )


def test_another_requirement_does_not(tmp_path: Path) -> None:
    root = source_dir(tmp_path, requirements_txt="# horovod\nhorovod-like\n-r horovod\n")
    with pytest.raises(LaunchError, match="does not contain Horovod"):
        resolve(
            Training(strategy=Strategy.HOROVOD, framework_version="2.3.0", source_dir="mine"),
            "us-east-1",
            root=root,
        )


def test_an_image_of_ones_own_may_contain_horovod() -> None:
    keys: dict[str, Any] = {"framework_version": "2.3.0", "image_uri": "mine/image:1"}
    assert (
        "nothing here can check what is in it"
        in launch(strategy=Strategy.HOROVOD, **keys).notices[0]
    )


@pytest.mark.parametrize(
    "keys", [{"strategy": Strategy.TORCHRUN}, {"collective": Collective.ALLGATHER}]
)
def test_torchrun_cannot_start_a_package(tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(
        LaunchError,
        match=(
            r"contains setup\.py: the training toolkit then installs it as a package, which"
            r" torchrun cannot start"
        ),
    ):
        resolve(
            Training(**keys, source_dir="mine"), "us-east-1", root=source_dir(tmp_path, setup_py="")
        )


def test_mpirun_can_start_a_package(tmp_path: Path) -> None:
    root = source_dir(tmp_path, setup_py="")
    assert (
        resolve(Training(source_dir="mine"), "us-east-1", root=root).contract.launcher == "mpirun"
    )


@pytest.mark.parametrize("keys", [{}, TENSORFLOW, {**TENSORFLOW, "instance_type": "ml.m5.xlarge"}])
def test_the_default_version_has_horovod_in_its_image(keys: dict[str, Any]) -> None:
    assert launch(strategy=Strategy.HOROVOD, **keys).notices == ()


def test_an_image_without_legacy_keras_is_refused_for_our_scripts() -> None:
    (refusal,) = refusals(**TENSORFLOW, strategy=Strategy.MIRRORED, framework_version="2.21.0")
    assert (
        "AWS's image of it lacks tf_keras~=2.21.0, which training_code/mnist/tensorflow needs; name"
        " tf_keras~=2.21.0 in requirements.txt" in refusal
    )


@pytest.mark.parametrize("version", ["2.16.2", "2.18.0", "2.19.0"])
def test_images_that_bring_legacy_keras_with_keras_3_are_accepted(version: str) -> None:
    assert launch(**TENSORFLOW, strategy=Strategy.MIRRORED, framework_version=version).notices == ()


def test_a_requirement_brings_legacy_keras_and_scripts_of_ones_own_need_none(
    tmp_path: Path,
) -> None:
    keys: dict[str, Any] = {
        **TENSORFLOW,
        "strategy": Strategy.MIRRORED,
        "framework_version": "2.21.0",
    }
    shutil.copytree(ROOT / "training_code/mnist/tensorflow", tmp_path / "theirs")
    (tmp_path / "theirs" / "requirements.txt").write_text("tf-keras>=2.21\n", encoding="utf-8")
    required = resolve(Training(**keys, source_dir="theirs"), "us-east-1", root=tmp_path)
    assert required.notices == launch(**keys, source_dir="mine").notices


@pytest.mark.parametrize(
    ("keys", "notice"),
    [
        (
            {"strategy": Strategy.MIRRORED, "instance_type": "ml.m5.xlarge"},
            "ml.m5.xlarge has none: the replicas share its cores",
        ),
        (
            {"strategy": Strategy.MULTI_WORKER_MIRRORED},
            "made for several; strategy: mirrored needs no cluster",
        ),
        (
            {"strategy": Strategy.PARAMETER_SERVER, "instance_count": 3},
            "of several GPUs it uses one",
        ),
    ],
)
def test_devices_that_a_strategy_does_not_use_or_have_are_a_notice(
    keys: dict[str, Any], notice: str
) -> None:
    assert launch(**TENSORFLOW, **keys).notices[0].endswith(notice)
