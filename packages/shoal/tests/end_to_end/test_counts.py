"""What one execution of the demo costs in counts: requests and bytes by role, processes.

One more of them is seen on any machine.

Left out is what depends on time: lines are sent to the log in batches, and the teardown's queue is
polled. A limit is the count of its day and a quarter more; raise it with a reason.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.end_to_end.conftest import Checkout, Finished

TIMED = {"PutLogEvents", "GetQueueUrl", "ReceiveMessage"}
COSTS = {
    "pipeline": (19, None),
    "training": (43, 56_700_000),
    "evaluation": (33, 8_290_000),
    "endpoint": (30, 416_000),
    "smoke-test": (11, None),
}
"""Role -> requests, and bytes of them and their answers: training gets the dataset (55 MB
unpacked), evaluation its test half and the model (0.4 MB).
"""
OBJECTS = 5
"""Four files of the dataset, and the code."""
REQUESTS_PER_LOOK = 4
"""For logs, at most."""
FUNCTIONS = 6
"""Smoke test, seal, teardown, pages, emptying of buckets and of the registry."""
SYNCED = "checkpoint.pt"
"""Goes to S3 whenever the job's folder is looked at and has changed, so how often depends on time.
"""


@pytest.fixture(scope="module")
def requests(demo: Finished, checkout: Checkout) -> list[dict[str, Any]]:
    log = checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("role", COSTS)
def test_an_execution_asks_and_carries_as_much_as_it_did(
    requests: list[dict[str, Any]], role: str
) -> None:
    count, size = COSTS[role]
    own = [request for request in requests if f"-{role}/" in request["caller"]]
    asked = Counter(request["operation"] for request in own if request["operation"] not in TIMED)
    assert count * 5 // 8 < asked.total() <= count * 5 // 4, asked
    carried = sum(
        request["received"] + request["sent"]
        for request in own
        if not request["parameters"].get("Key", "").endswith(SYNCED)
    )
    assert size is None or size * 5 // 8 < carried <= size * 5 // 4


def test_training_fetches_each_object_once(requests: list[dict[str, Any]]) -> None:
    fetched = [
        request
        for request in requests
        if "-training/" in request["caller"] and request["operation"] == "GetObject"
    ]
    assert len(fetched) == OBJECTS


def test_following_costs_a_handful_of_requests_per_look(requests: list[dict[str, Any]]) -> None:
    asked = Counter(
        request["operation"] for request in requests if request["caller"].endswith(":root")
    )
    looks = asked["DescribePipelineExecution"]
    assert looks <= asked["ListPipelineExecutionSteps"] <= looks + 5
    assert asked["GetLogEvents"] + asked["DescribeLogStreams"] <= REQUESTS_PER_LOOK * looks + 40


@pytest.mark.usefixtures("demo")
def test_a_job_has_one_container_and_functions_keep_processes(checkout: Checkout) -> None:
    lines = (checkout.root / "demo-out" / "logs" / "emulator.log").read_text().splitlines()
    started = [line.partition(" started: ")[2] for line in lines if " started: " in line]
    containers = Counter(
        what.removeprefix("containers of ").partition("-")[0]
        for what in started
        if what.startswith("containers")
    )
    assert containers == {"training": 1, "processing": 1, "endpoint": 1}
    # One of each function; one more where the step and the rule call the teardown at once.
    functions = sum(what.startswith("lambda ") for what in started)
    assert FUNCTIONS <= functions <= FUNCTIONS + 1
