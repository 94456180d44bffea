"""`shoal ssh` prints the command for the training that runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from shoal.aws.execution import Execution, Step
from shoal.cli.commands.executions import ssh
from shoal.page.look import Look
from tests.repository import ROOT

TRAIN = Step("Train", "Training", "Executing")
OPEN = {"EnableRemoteDebug": True}
SESSION = "aws ssm start-session --region us-east-1 --target sagemaker-training-job:Train-Xy_algo-"


@pytest.mark.parametrize(
    ("job", "host", "told"),
    [
        ({"RemoteDebugConfig": OPEN}, (), f"{SESSION}1\n"),
        ({"RemoteDebugConfig": OPEN}, ("algo-2",), f"{SESSION}2\n"),
        ({"RemoteDebugConfig": OPEN}, ("algo-3",), "there are algo-1, algo-2"),
        ({}, (), "the training Train-Xy lets nobody in: set training.capacity.remote_debug: true"),
        ({"RemoteDebugConfig": OPEN, "SecondaryStatus": "Pending"}, (), "is at Pending: AWS lets"),
        ({"TrainingJobStatus": "Completed"}, (), "execution abc runs no training now"),
    ],
)
def test_the_command_for_a_shell_is_that_of_the_running_training(
    monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], host: tuple[str, ...], told: str
) -> None:
    states = {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"}
    known = states | {"ResourceConfig": {"InstanceCount": 2}} | job
    monkeypatch.setattr(Look, "job", lambda *_: known | {"name": "Train-Xy"})
    execution = Execution("arn:aws:x/abc", "Executing", "", None, (TRAIN,))
    session = SimpleNamespace(
        pipeline=SimpleNamespace(find=str, look=lambda _: execution),
        target=SimpleNamespace(region="us-east-1"),
        place=SimpleNamespace(is_local=False),
    )
    workspace = SimpleNamespace(root=ROOT, open=lambda *_: session)
    result = CliRunner().invoke(ssh, ["dev", "abc", *host], obj=workspace)
    assert told in (result.stdout or str(result.exception))
