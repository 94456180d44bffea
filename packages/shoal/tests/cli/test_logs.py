"""Which lines `shoal logs` prints with `--rank` and `--host`, from a log of the test's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from shoal.aws.execution import Execution, Step
from shoal.cli.commands.models.executions import logs, ssh
from shoal.page.look import Look
from tests.repository import ROOT

NO_RANK = "no line of this log names a rank; without --rank all lines are printed\n"
FIRST, SECOND = (f"[1,mpirank:{rank},algo-{rank + 1}]<stdout>:a" for rank in (0, 1))
FUNCTION = "arn:aws:lambda:us-east-1:111122223333:function:shoal-mnist-dev-smoke-test"
STEP = Step("SmokeTest", "Lambda", "Succeeded", metadata={"Lambda": {"Arn": FUNCTION}})


class Log:
    """A client for CloudWatch Logs with one stream of these lines."""

    def __init__(self, *lines: str) -> None:
        self._events = [{"message": line, "timestamp": 0} for line in lines]

    def get_paginator(self, _: str) -> Log:
        return self

    def paginate(self, **_: str) -> list[dict[str, list[dict[str, str]]]]:
        return [{"logStreams": [{"logStreamName": "job/algo-1-1795489693"}]}]

    def get_log_events(self, **request: str) -> dict[str, object]:
        events = [] if "nextToken" in request else self._events
        return {"events": events, "nextForwardToken": "end"}


@pytest.mark.parametrize(
    ("lines", "options", "printed", "told"),
    [
        (("step=1", "step=2"), ("--rank", "0"), "", NO_RANK),
        (("step=1", "step=2"), (), "step=1\nstep=2\n", ""),
        (("[1,0]<stdout>:a", "[1,1]<stdout>:b"), ("--rank", "1"), "[1,1]<stdout>:b\n", ""),
        (("[1,0]<stdout>:a", "plain"), ("--rank", "1"), "", ""),
        ((), ("--rank", "0"), "", ""),
        ((FIRST, SECOND), ("--host", "algo-1"), f"{FIRST}\n", ""),
        ((FIRST, SECOND), ("--host", "algo-2"), f"{SECOND}\n", ""),
    ],
    ids=["no-rank", "not-asked", "a-rank", "another-rank", "empty", "own-host", "another-host"],
)
def test_only_lines_of_the_rank_and_host_are_printed_and_a_log_without_ranks_says_so(
    lines: tuple[str, ...], options: tuple[str, ...], printed: str, told: str
) -> None:
    execution = Execution("arn:aws:x/abc", "Succeeded", "", None, (STEP,))
    session = SimpleNamespace(
        pipeline=SimpleNamespace(find=str, look=lambda _: execution),
        target=SimpleNamespace(client=lambda _: Log(*lines)),
    )
    workspace = SimpleNamespace(root=ROOT, open=lambda *_: session)
    result = CliRunner().invoke(logs, ["dev", "abc", "SmokeTest", *options], obj=workspace)
    assert (result.stdout, result.stderr) == (printed, told)


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
        ({"TrainingJobStatus": "Completed"}, (), "execution abc runs no training now"),
    ],
)
def test_the_command_for_a_shell_is_that_of_the_running_training(
    monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], host: tuple[str, ...], told: str
) -> None:
    known = {"TrainingJobStatus": "InProgress", "ResourceConfig": {"InstanceCount": 2}} | job
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
