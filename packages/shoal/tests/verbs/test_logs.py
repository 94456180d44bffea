"""A step's log in CloudWatch Logs, its last lines, and an execution that is followed to its end."""

import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from local_kit.tables import table
from shoal.aws.events import Detail, Event, ExecutionChanged
from shoal.aws.execution import Execution, Step
from shoal.aws.logs import LogLocation, LogTail, lines_of, location_of
from shoal.aws.target import Target
from shoal.errors import ExecutionError, NotFoundError
from shoal.verbs.follow import Follower, LastLines, _JobLog
from tests.verbs.conftest import make_pipeline
from tests.verbs.test_execution import gate

JOB = "arn:aws:sagemaker:us-east-1:111122223333:training-job/pipelines-abc-train-1"
FUNCTION = "arn:aws:lambda:us-east-1:111122223333:function:shoal-mnist-dev-smoke-test"


def write(target: Target, group: str, stream: str, *lines: str) -> None:
    now_ms = int(time.time() * 1000)
    target.client("logs").put_log_events(
        logGroupName=group,
        logStreamName=stream,
        logEvents=[{"timestamp": now_ms, "message": line} for line in lines],
    )


def make_group(target: Target, *streams: str, below: str = "/test/") -> str:
    client, group = target.client("logs"), f"{below}{uuid.uuid4().hex}"
    client.create_log_group(logGroupName=group)
    for stream in streams:
        client.create_log_stream(logGroupName=group, logStreamName=stream)
    return group


def logging_in(group: str) -> dict[str, Any]:
    """Return the metadata of a step whose function has this group."""
    return {"Lambda": {"Arn": f"{FUNCTION.rpartition(':')[0]}:{group.rpartition('/')[2]}"}}


def test_a_tail_returns_each_line_once_as_it_comes(target: Target) -> None:
    group = make_group(target, "job/algo-1")
    tail = LogTail(target.client("logs"), LogLocation(group, "job/"))
    write(target, group, "job/algo-1", "one", "two")
    first = list(tail.new_lines())
    write(target, group, "job/algo-1", "three")
    assert first == ["one", "two"]
    assert (list(tail.new_lines()), list(tail.new_lines())) == (["three"], [])


def test_the_lines_of_a_step_are_what_its_function_printed_meanwhile(target: Target) -> None:
    group = make_group(target, "a", below="/aws/lambda/")
    write(target, group, "a", "one", "two")
    step = Step("Smoke", "Lambda", "Executing", datetime.now(UTC), metadata=logging_in(group))
    assert [line.text for line in lines_of(target, step)] == ["one", "two"]


def test_only_the_streams_of_the_job_are_read(target: Target) -> None:
    group = make_group(target, "job/algo-1", "job-2/algo-1", "job/algo-1-17/ssm")
    write(target, group, "job-2/algo-1", "of another job")
    write(target, group, "job/algo-1-17/ssm", "of the agent, with remote_debug")
    for location in (LogLocation(group, "job/"), LogLocation("/test/none-yet", "job/")):
        assert list(LogTail(target.client("logs"), location).new_lines()) == []


def test_lines_from_before_the_step_are_left_out(target: Target) -> None:
    group = make_group(target, "s")
    write(target, group, "s", "early")
    location = LogLocation(group, since=datetime.now(UTC) + timedelta(minutes=1))
    assert list(LogTail(target.client("logs"), location).new_lines()) == []


def test_what_would_steer_a_terminal_is_shown_as_text(target: Target) -> None:
    """An event of several lines is several lines."""
    group = make_group(target, "s")
    printed = (r"\x1b]52;c;ZXZpbA==\x07\x1b[2J[/b]    done", "KeyError: 'x'", "  File", "100 %")
    events = ("\x1b]52;c;ZXZpbA==\x07\x1b[2J[/b]\tdone\r\n", "KeyError: 'x'\n\xa0\xa0File")
    write(target, group, "s", *events, "100 %\r\n")
    assert tuple(LogTail(target.client("logs"), LogLocation(group)).new_lines()) == printed


class PagesWithAnEmptyOne:
    """A client whose log has an empty page between two with a line each."""

    pages: ClassVar = {None: (["one"], "1"), "1": ([], "2"), "2": (["two"], "3"), "3": ([], "3")}

    def get_paginator(self, _: str) -> "PagesWithAnEmptyOne":
        return self

    def paginate(self, **_: str) -> list[dict[str, list[dict[str, str]]]]:
        return [{"logStreams": [{"logStreamName": "s"}]}]

    def get_log_events(self, **request: str) -> dict[str, object]:
        lines, token = self.pages[request.get("nextToken")]
        events = [{"message": line, "timestamp": 0} for line in lines]
        return {"events": events, "nextForwardToken": token}


def test_an_empty_page_is_not_the_end() -> None:
    tail = LogTail(PagesWithAnEmptyOne(), LogLocation("g"))
    assert (list(tail.new_lines()), list(tail.new_lines())) == (["one", "two"], [])


class Expired(PagesWithAnEmptyOne):
    """A client of a stream past its retention: every page is empty and names another one."""

    asked = 0

    def get_log_events(self, **_: str) -> dict[str, object]:
        self.asked += 1
        return {"events": [], "nextForwardToken": str(self.asked)}


def test_a_stream_past_its_retention_ends() -> None:
    client = Expired()
    assert list(LogTail(client, LogLocation("g")).new_lines()) == []
    assert client.asked == 50


class Streams:
    """A client of a function's log: streams by name, with creation and last event in days."""

    def __init__(self, **days: tuple[int, int]) -> None:
        self._days = days

    def get_paginator(self, _: str) -> "Streams":
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        streams = []
        for name, days in self._days.items():
            created, last = (datetime(2026, 1, day, tzinfo=UTC).timestamp() * 1000 for day in days)
            times = {"creationTime": int(created), "lastEventTimestamp": int(last)}
            streams.append({"logStreamName": name} | times)
        return [{"logStreams": streams}]

    def get_log_events(self, **request: str) -> dict[str, object]:
        events = [{"message": request["logStreamName"], "timestamp": 0}]
        return {"events": [] if "nextToken" in request else events, "nextForwardToken": "end"}


def test_streams_that_ended_days_before_or_began_days_after_are_not_asked() -> None:
    streams = Streams(before=(1, 2), lagging=(1, 9), during=(10, 10), after=(15, 15))
    began = datetime(2026, 1, 10, tzinfo=UTC)
    location = LogLocation("g", since=began, until=began + timedelta(seconds=9))
    assert list(LogTail(streams, location).new_lines()) == ["lagging", "during"]


def test_a_job_that_does_not_exist_has_no_log(target: Target) -> None:
    step = Step("Train", "Training", "Executing", metadata={"TrainingJob": {"Arn": JOB}})
    with pytest.raises(NotFoundError, match=f"there is no job {JOB}"):
        location_of(target, step)


def test_a_lambda_step_logs_in_its_functions_group_during_the_step(target: Target) -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    arn, slack = {"Lambda": {"Arn": FUNCTION}}, timedelta(seconds=2)
    location = location_of(target, Step("S", "Lambda", "Succeeded", began, began, metadata=arn))
    assert location is not None
    assert location.group == "/aws/lambda/shoal-mnist-dev-smoke-test"
    assert (location.since, location.until) == (began - slack, began + slack)


def test_a_condition_logs_nowhere(target: Target) -> None:
    gate = Step("Gate", "Condition", "Succeeded", metadata={"Condition": {"Outcome": "True"}})
    assert location_of(target, gate) is None
    assert list(lines_of(target, gate)) == []


TORCHRUN = "E1123 11:51:25.723000 20892 torch/distributed/elastic/multiprocessing/api.py:1002]"
OWN = ["reading data", "dataset has no column price"]
REPORT: list[str] = table(__file__, "cases.yaml")["report"]
ELASTIC = [
    f"{TORCHRUN} failed (exitcode: 1) local_rank: 0 (pid: 20976) of binary: /usr/bin/python",
    "Traceback (most recent call last):",
    *(f"  line {number} of the launcher" for number in range(20)),
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
]


MANY = [str(number) for number in range(100)]


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ([*OWN, *ELASTIC, *REPORT], OWN),
        ([*OWN, *REPORT], OWN),
        (REPORT, REPORT),
        ([*MANY, *REPORT], MANY[-15:]),
    ],
    ids=["torchrun and toolkit", "toolkit", "the script printed nothing", "more than fit"],
)
def test_what_launcher_and_toolkit_say_of_the_end_is_left_out(
    printed: list[str], kept: list[str]
) -> None:
    lines = LastLines()
    for line in printed:
        lines.add(line)
    assert list(lines.lines) == kept


def follow(target: Target, met: bool, folder: Path) -> tuple[Follower, list[Event]]:
    pipeline = make_pipeline(target, [gate(met)])
    events: list[Event] = []
    return Follower(pipeline, pipeline.start({}), events.append, 0.05, folder), events


def test_every_change_is_told_until_the_execution_has_ended(target: Target, tmp_path: Path) -> None:
    follower, events = follow(target, True, tmp_path)
    execution = follower.follow()
    follower.raise_unless_succeeded(execution)
    executions = [event.execution for event in events if isinstance(event, ExecutionChanged)]
    assert executions[-1].status == execution.status == "Succeeded"
    assert len(executions) == len(
        {(now.status, tuple((step.name, step.status) for step in now.steps)) for now in executions}
    )


def test_a_failure_names_the_step_and_the_reason(target: Target, tmp_path: Path) -> None:
    follower, _ = follow(target, False, tmp_path)
    says = r"step Refuse failed, .* ended as Failed: .*not today"
    with pytest.raises(ExecutionError, match=says):
        follower.raise_unless_succeeded(follower.follow())


def test_a_failures_reason_is_one_line_that_steers_no_terminal(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(False)])
    steps = (Step("Train", "Training", "Failed", failure_reason="\x1b[2Ja\nb"),)
    follower = Follower(pipeline, "arn:aws:x/abc", lambda _: None, 0.05)
    with pytest.raises(ExecutionError, match=r"ended as Failed: \\x1b\[2Ja\\nb$"):
        follower.raise_unless_succeeded(Execution("arn:aws:x/abc", "Failed", "", None, steps))


def test_a_failure_shows_what_the_script_printed_last(target: Target) -> None:
    group = make_group(target, "s", below="/aws/lambda/")
    write(target, group, "s", *OWN, *REPORT)
    step = Step("Train", "Lambda", "Failed", metadata=logging_in(group))
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
    tail = LogTail(target.client("logs"), LogLocation(group, "job/"))
    follower._job_logs["Train"] = _JobLog(tail)
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
    lines = [each.text for each in events if isinstance(each, Detail)]
    assert (lines, follower._job_logs["Train"].last.lines) == (
        ["no capacity", "trained"],
        ("trained",),
    )


def test_a_failure_names_the_command_that_prints_the_log(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(False)])
    steps = (Step("Train", "Training", "Failed"),)
    execution = Execution("arn:aws:x/abc", "Failed", "", None, steps)
    command, location = "shoal logs dev --local", LogLocation("/aws/sagemaker/TrainingJobs", "job/")
    follower = Follower(pipeline, execution.arn, lambda _: None, 0.05, logs_command=command)
    follower._job_logs["Train"] = _JobLog(LogTail(target.client("logs"), location))
    message = (
        r"whole log: `shoal logs dev --local abc Train` \(CloudWatch Logs, group"
        r" /aws/sagemaker/TrainingJobs, streams job/\*\)$"
    )
    with pytest.raises(ExecutionError, match=message):
        follower.raise_unless_succeeded(execution)
