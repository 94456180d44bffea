"""Reading a step's log from CloudWatch Logs."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from shoal.aws.execution import Step
from shoal.aws.logs import LogLocation, LogTail, lines_of, location_of
from shoal.aws.target import Target
from shoal.errors import NotFoundError

JOB = "arn:aws:sagemaker:us-east-1:111122223333:training-job/pipelines-abc-train-1"
FUNCTION = "arn:aws:lambda:us-east-1:111122223333:function:shoal-mnist-dev-smoke-test"


def write(target: Target, group: str, stream: str, *lines: str) -> None:
    now_ms = int(time.time() * 1000)
    target.client("logs").put_log_events(
        logGroupName=group,
        logStreamName=stream,
        logEvents=[{"timestamp": now_ms, "message": line} for line in lines],
    )


def make_group(target: Target, *streams: str) -> str:
    client, group = target.client("logs"), f"/test/{uuid.uuid4().hex}"
    client.create_log_group(logGroupName=group)
    for stream in streams:
        client.create_log_stream(logGroupName=group, logStreamName=stream)
    return group


def test_a_tail_returns_each_line_once_as_it_comes(target: Target) -> None:
    group = make_group(target, "job/algo-1")
    tail = LogTail(target.client("logs"), LogLocation(group, "job/"))
    write(target, group, "job/algo-1", "one", "two")
    first = list(tail.new_lines())
    write(target, group, "job/algo-1", "three")
    assert first == ["one", "two"]
    assert (list(tail.new_lines()), list(tail.new_lines())) == (["three"], [])


def test_the_lines_of_a_step_are_what_its_function_printed_meanwhile(target: Target) -> None:
    client, name = target.client("logs"), f"f-{uuid.uuid4().hex}"
    client.create_log_group(logGroupName=f"/aws/lambda/{name}")
    client.create_log_stream(logGroupName=f"/aws/lambda/{name}", logStreamName="a")
    write(target, f"/aws/lambda/{name}", "a", "one", "two")
    arn = {"Lambda": {"Arn": f"{FUNCTION.rpartition(':')[0]}:{name}"}}
    step = Step("Smoke", "Lambda", "Executing", datetime.now(UTC), metadata=arn)
    assert [line.text for line in lines_of(target, step)] == ["one", "two"]


def test_only_the_streams_of_the_job_are_read(target: Target) -> None:
    group = make_group(target, "job/algo-1", "job-2/algo-1", "job/algo-1-17/ssm")
    write(target, group, "job-2/algo-1", "of another job")
    write(target, group, "job/algo-1-17/ssm", "of the agent, with remote_debug")
    assert list(LogTail(target.client("logs"), LogLocation(group, "job/")).new_lines()) == []


def test_a_log_that_does_not_exist_yet_is_empty(target: Target) -> None:
    assert list(LogTail(target.client("logs"), LogLocation("/test/none", "job/")).new_lines()) == []


def test_lines_from_before_the_step_are_left_out(target: Target) -> None:
    group = make_group(target, "s")
    write(target, group, "s", "early")
    location = LogLocation(group, since=datetime.now(UTC) + timedelta(minutes=1))
    assert list(LogTail(target.client("logs"), location).new_lines()) == []


def test_what_would_steer_a_terminal_is_shown_as_text(target: Target) -> None:
    group = make_group(target, "s")
    write(target, group, "s", "\x1b]52;c;ZXZpbA==\x07\x1b[2J[/b]\tdone\r\n")
    assert list(LogTail(target.client("logs"), LogLocation(group)).new_lines()) == [
        r"\x1b]52;c;ZXZpbA==\x07\x1b[2J[/b]    done"
    ]


def test_an_event_of_several_lines_is_several_lines(target: Target) -> None:
    group = make_group(target, "s")
    write(target, group, "s", "[ERROR] KeyError: 'x'\nTraceback:\n\xa0\xa0File", "100 %\r\n")
    assert list(LogTail(target.client("logs"), LogLocation(group)).new_lines()) == [
        "[ERROR] KeyError: 'x'",
        "Traceback:",
        "  File",
        "100 %",
    ]


class PagesWithAnEmptyOne:
    """A client whose log has an empty page between two with a line each."""

    pages: ClassVar = {None: (["one"], "1"), "1": ([], "2"), "2": (["two"], "3"), "3": ([], "3")}

    def get_paginator(self, _: str) -> PagesWithAnEmptyOne:
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

    def get_paginator(self, _: str) -> Streams:
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        times = ("creationTime", "lastEventTimestamp")
        return [
            {
                "logStreams": [
                    {"logStreamName": name} | dict(zip(times, map(_ms, days), strict=True))
                    for name, days in self._days.items()
                ]
            }
        ]

    def get_log_events(self, **request: str) -> dict[str, object]:
        events = [{"message": request["logStreamName"], "timestamp": 0}]
        return {"events": [] if "nextToken" in request else events, "nextForwardToken": "end"}


def _ms(day: int) -> int:
    return int(datetime(2026, 1, day, tzinfo=UTC).timestamp() * 1000)


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
