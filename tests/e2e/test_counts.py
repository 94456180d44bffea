"""What one execution of the demo asks of the API, by role: a request more per step or per poll is seen on any machine.

Left out is what depends on time: lines are sent to the log in batches, and the teardown's queue is polled. A limit is the count of its
day and a quarter more; raise it with a reason.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.e2e.conftest import Checkout, Finished

TIMED = {"PutLogEvents", "GetQueueUrl", "ReceiveMessage"}
LIMITS = {
    role: count * 5 // 4 for role, count in {"pipeline": 15, "training": 42, "evaluation": 31, "endpoint": 27, "smoke-test": 11}.items()
}


@pytest.fixture(scope="module")
def requests(demo: Finished, checkout: Checkout) -> list[dict[str, str]]:
    return [json.loads(line) for line in (checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("role", LIMITS)
def test_an_execution_asks_about_as_much_as_it_did(requests: list[dict[str, str]], role: str) -> None:
    asked = Counter(request["operation"] for request in requests if f"-{role}/" in request["caller"])
    assert LIMITS[role] // 2 < sum(count for operation, count in asked.items() if operation not in TIMED) <= LIMITS[role], asked


def test_training_fetches_each_object_once(requests: list[dict[str, str]]) -> None:
    """Four files of the dataset, and the code."""
    fetched = [request for request in requests if "-training/" in request["caller"] and request["operation"] == "GetObject"]
    assert len(fetched) == 5


def test_following_costs_a_handful_of_requests_per_look(requests: list[dict[str, str]]) -> None:
    asked = Counter(request["operation"] for request in requests if request["caller"].endswith(":root"))
    looks = asked["DescribePipelineExecution"]
    assert looks <= asked["ListPipelineExecutionSteps"] <= looks + 5
    assert asked["GetLogEvents"] + asked["DescribeLogStreams"] <= 4 * looks + 40
