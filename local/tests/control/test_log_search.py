"""FilterLogEvents: what a prefix, names of streams, times and terms leave of a group's events."""

from __future__ import annotations

import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.tests.control.account import Account

GROUP = "searched"
LINES = {
    "job/algo-1": ["loading data", "ERROR no memory", "WARN slow"],
    "job/algo-2": ["ERROR code: 7"],
    "jobs": ["error lower case"],
}


@pytest.fixture(scope="module")
def began(account: Account) -> int:
    """The time of the first event, in milliseconds; each later one has the next."""
    client, began = account.client("logs"), int(time.time() * 1000)
    client.create_log_group(logGroupName=GROUP)
    number = 0
    for stream, lines in LINES.items():
        client.create_log_stream(logGroupName=GROUP, logStreamName=stream)
        events = []
        for line in lines:
            events.append({"timestamp": began + number, "message": line})
            number += 1
        client.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)
    return began


def search(account: Account, **request: Any) -> list[str]:
    pages = account.client("logs").get_paginator("filter_log_events")
    answers = pages.paginate(logGroupName=GROUP, **request)
    return [event["message"] for answer in answers for event in answer["events"]]


@pytest.mark.usefixtures("began")
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", [line for lines in LINES.values() for line in lines]),
        ("ERROR", ["ERROR no memory", "ERROR code: 7"]),
        ("ERROR memory", ["ERROR no memory"]),
        ("?memory ?slow", ["ERROR no memory", "WARN slow"]),
        ("ERROR ?slow", ["ERROR no memory", "ERROR code: 7"]),
        ('"code: 7"', ["ERROR code: 7"]),
        ("ERROR -memory", ["ERROR code: 7"]),
        ("nothing", []),
    ],
)
def test_terms_say_which_events_there_are(account: Account, pattern: str, found: list[str]) -> None:
    assert search(account, filterPattern=pattern) == found


@pytest.mark.usefixtures("began")
@pytest.mark.parametrize("pattern", ['{ $.level = "ERROR" }', "[ip, user]", "%ERR%"])
def test_a_pattern_of_another_kind_is_refused_by_name(account: Account, pattern: str) -> None:
    with pytest.raises(ClientError, match="does not emulate filter patterns of"):
        search(account, filterPattern=pattern)


@pytest.mark.usefixtures("began")
def test_streams_are_chosen_by_prefix_or_by_name(account: Account) -> None:
    assert search(account, logStreamNamePrefix="job/", filterPattern="code") == ["ERROR code: 7"]
    assert search(account, logStreamNamePrefix="zzzz") == []
    assert search(account, logStreamNames=["jobs"]) == LINES["jobs"]
    with pytest.raises(ClientError, match="cannot be used in one request"):
        search(account, logStreamNamePrefix="job", logStreamNames=["jobs"])


def test_times_are_limits_and_both_are_included(account: Account, began: int) -> None:
    assert search(account, startTime=began + 1, endTime=began + 2) == LINES["job/algo-1"][1:]


@pytest.mark.usefixtures("began")
def test_pages_have_every_event_once(account: Account) -> None:
    assert search(account, limit=2) == search(account)
    assert len(search(account)) == 5


def test_a_group_that_is_not_there_is_said(account: Account) -> None:
    with pytest.raises(account.client("logs").exceptions.ResourceNotFoundException):
        account.client("logs").filter_log_events(logGroupName="nowhere")
