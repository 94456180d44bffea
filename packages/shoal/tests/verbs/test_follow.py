"""Follow an execution to its end."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from shoal.aws.events import Event, ExecutionChanged, StepLogged
from shoal.aws.execution import Execution, Step
from shoal.aws.logs import LogLocation, LogTail
from shoal.aws.target import Target
from shoal.errors import ExecutionError
from shoal.verbs.follow import Follower
from tests.verbs.conftest import make_pipeline
from tests.verbs.test_execution import gate
from tests.verbs.test_last_lines import OWN, REPORT
from tests.verbs.test_logs import make_group, write


def follow(target: Target, met: bool, folder: Path) -> tuple[Follower, list[Event]]:
    pipeline = make_pipeline(target, [gate(met)])
    events: list[Event] = []
    return Follower(pipeline, pipeline.start({}), events.append, 0.05, folder), events


def test_every_change_is_told_until_the_execution_has_ended(target: Target, tmp_path: Path) -> None:
    follower, events = follow(target, True, tmp_path)
    execution = follower.follow()
    executions = [event.execution for event in events if isinstance(event, ExecutionChanged)]
    assert executions[-1].status == execution.status == "Succeeded"
    assert len(executions) == len(
        {(now.status, tuple((step.name, step.status) for step in now.steps)) for now in executions}
    )


def test_success_raises_nothing(target: Target, tmp_path: Path) -> None:
    follower, _ = follow(target, True, tmp_path)
    follower.raise_unless_succeeded(follower.follow())


def test_a_failure_names_the_step_and_the_reason(target: Target, tmp_path: Path) -> None:
    follower, _ = follow(target, False, tmp_path)
    says = r"step Refuse failed, .* ended as Failed: .*not today"
    with pytest.raises(ExecutionError, match=says) as caught:
        follower.raise_unless_succeeded(follower.follow())
    assert caught.value.step == "Refuse"


def test_a_failures_reason_is_one_line_that_steers_no_terminal(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(False)])
    steps = (Step("Train", "Training", "Failed", failure_reason="\x1b[2Ja\nb"),)
    follower = Follower(pipeline, "arn:aws:x/abc", lambda _: None, 0.05)
    with pytest.raises(ExecutionError, match=r"ended as Failed: \\x1b\[2Ja\\nb$"):
        follower.raise_unless_succeeded(Execution("arn:aws:x/abc", "Failed", "", None, steps))


def test_a_failure_shows_what_the_script_printed_last(target: Target) -> None:
    function = f"test-{uuid.uuid4().hex}"
    group = f"/aws/lambda/{function}"
    target.client("logs").create_log_group(logGroupName=group)
    target.client("logs").create_log_stream(logGroupName=group, logStreamName="s")
    write(target, group, "s", *OWN, *REPORT)
    arn = f"arn:aws:lambda:us-east-1:111122223333:function:{function}"
    step = Step("Train", "Lambda", "Failed", metadata={"Lambda": {"Arn": arn}})
    execution = Execution("arn:aws:x/abc", "Failed", "", None, (step,))
    follower = Follower(make_pipeline(target, [gate(False)]), execution.arn, lambda _: None, 0.05)
    follower._read_logs(execution)
    with pytest.raises(ExecutionError, match=f"{OWN[-1]}\nwhole log: "):
        follower.raise_unless_succeeded(execution)


def test_a_failure_begins_with_the_exception_of_the_rank_that_raised_it(target: Target) -> None:
    group = make_group(target, "job/algo-1-1", "job/algo-2-1")
    write(target, group, "job/algo-2-1", "[rank1]: ValueError: no price in 17 rows")
    write(target, group, "job/algo-1-1", "[rank0]: RuntimeError: Connection closed by peer")
    step = Step("Train", "Training", "Failed", failure_reason="AlgorithmError: ExitCode 1")
    follower = Follower(make_pipeline(target, [gate(False)]), "a:x/abc", lambda _: None, 0.05)
    follower._tails["Train"] = LogTail(target.client("logs"), LogLocation(group, "job/"))
    follower._read_log(step)
    says = r"^step Train failed: ValueError: no price in 17 rows \(algo-2, rank 1\); execution abc "
    with pytest.raises(ExecutionError, match=says):
        follower.raise_unless_succeeded(Execution("a:x/abc", "Failed", "", None, (step,)))


def test_a_step_is_followed_to_another_job(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    group, events = make_group(target, "one/algo-1", "two/algo-1"), list[Event]()
    follower = Follower(make_pipeline(target, [gate(False)]), "arn:aws:x/abc", events.append, 0.05)
    for job, line in (("one", "no capacity"), ("two", "trained")):
        location = LogLocation(group, f"{job}/")
        monkeypatch.setattr("shoal.verbs.follow.location_of", lambda *_, at=location: at)
        write(target, group, f"{job}/algo-1", line)
        follower._read_log(Step("Train", "Training", "Executing"))
    lines = [each.line for each in events if isinstance(each, StepLogged)]
    assert (lines, follower._last["Train"].lines) == (["no capacity", "trained"], ("trained",))


def test_a_failure_names_the_command_that_prints_the_log(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(False)])
    steps = (Step("Train", "Training", "Failed"),)
    execution = Execution("arn:aws:x/abc", "Failed", "", None, steps)
    command, location = "shoal logs dev --local", LogLocation("/aws/sagemaker/TrainingJobs", "job/")
    follower = Follower(pipeline, execution.arn, lambda _: None, 0.05, logs_command=command)
    follower._tails["Train"] = LogTail(target.client("logs"), location)
    message = (
        r"whole log: `shoal logs dev --local abc Train` \(CloudWatch Logs, group"
        r" /aws/sagemaker/TrainingJobs, streams job/\*\)$"
    )
    with pytest.raises(ExecutionError, match=message):
        follower.raise_unless_succeeded(execution)
