"""A script and its own options must fit the strategy that starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.launch import resolve
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.settings import Collective, Framework, Launcher, Strategy, Training
from tests.pipelines.launch.shipped import shipped
from tests.repository import ROOT

TENSORFLOW: dict[str, Any] = {"framework": Framework.TENSORFLOW}
NCCL: dict[str, Any] = {"hyperparameters": {"backend": "nccl"}}
BY_MPIRUN: dict[str, Any] = {"collective": Collective.ALLGATHER, "launcher": Launcher.MPIRUN}


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {**TENSORFLOW, "entry_point": "train.py"},
            "training_code/mnist/tensorflow's script for none; for smddp it is train_smddp.py;"
            " remove it",
        ),
        (
            {"strategy": Strategy.HOROVOD, "entry_point": "train.py"},
            "script for smddp and pytorchddp and torchrun and none; for horovod it is",
        ),
        (
            {
                **TENSORFLOW,
                "strategy": Strategy.PARAMETER_SERVER,
                "instance_count": 2,
                "entry_point": "train_smddp.py",
            },
            (
                "script for smddp; for parameter_server it is train_parameter_server.py; remove it,"
                " or set strategy: smddp"
            ),
        ),
        (
            {
                **TENSORFLOW,
                "instance_type": "ml.p4d.24xlarge",
                "fallback": Strategy.HOROVOD,
                "entry_point": "train_horovod.py",
            },
            "script for horovod; for smddp it is train_smddp.py",
        ),
        (
            {"strategy": Strategy.PYTORCHDDP, **NCCL},
            "keeps the script off smddp, which pytorchddp is paid for; remove it",
        ),
        (
            {"hyperparameters": {"backend": "gloo"}},
            "keeps the script off smddp, which smddp with AllReduce is paid for",
        ),
        (
            {**BY_MPIRUN, **NCCL},
            (
                "which smddp with AllGather by mpirun is paid for; remove it, set backend: smddp,"
                " or strategy: torchrun"
            ),
        ),
        (
            {"collective": Collective.ALLGATHER, **NCCL},
            "keeps the script off smddp, which smddp with AllGather is paid for",
        ),
        (
            {"strategy": Strategy.TORCHRUN, "instance_type": "ml.m5.xlarge", **NCCL},
            "needs GPUs, and ml.m5.xlarge has none; use gloo",
        ),
    ],
)
def test_what_does_not_go_together_is_one_line(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(LaunchError) as caught:
        resolve(shipped(**keys), "us-east-1", root=ROOT)
    (refusal,) = str(caught.value).splitlines()
    assert line in refusal


@pytest.mark.parametrize(
    "keys",
    [
        {**TENSORFLOW, "entry_point": "train.py", "source_dir": "mine"},
        {**TENSORFLOW, "entry_point": "mine.py"},
        {
            **TENSORFLOW,
            "framework_version": "2.12.0",
            "fallback": Strategy.HOROVOD,
            "entry_point": "train_horovod.py",
        },
        {"hyperparameters": {"backend": "auto"}},
        {"strategy": Strategy.TORCHRUN, **NCCL},
        {"strategy": Strategy.TORCHRUN, "hyperparameters": {"backend": "gloo"}},
        {"instance_type": "ml.p5.48xlarge", "fallback": Strategy.TORCHRUN, **NCCL},
    ],
)
def test_what_goes_together_is_accepted(keys: dict[str, Any]) -> None:
    assert resolve(shipped(**keys), "us-east-1", root=ROOT).contract


def test_a_script_of_another_strategy_beside_the_right_one_is_refused_in_any_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine").mkdir()
    training = Training(
        source_dir="mine", strategy=Strategy.TORCHRUN, entry_point="train_horovod.py"
    )
    assert resolve(training, "us-east-1", root=tmp_path).entry_point == "train_horovod.py"
    (tmp_path / "mine" / "train.py").touch()
    with pytest.raises(LaunchError, match=r"is mine's script for horovod; for torchrun it is"):
        resolve(training, "us-east-1", root=tmp_path)
