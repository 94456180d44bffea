"""What one execution of the demo does as often as it must: downloads, containers, processes."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.end_to_end.conftest import Checkout

FUNCTIONS = 6
"""Smoke test, seal, teardown, pages, emptying of buckets and of the registry."""

pytestmark = pytest.mark.usefixtures("demo")


def test_training_fetches_each_object_once(checkout: Checkout) -> None:
    log = checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl"
    requests = map(json.loads, log.read_text().splitlines())
    fetched = Counter(
        request["parameters"]["Key"]
        for request in requests
        if "-training/" in request["caller"] and request["operation"] == "GetObject"
    )
    assert (len(fetched), {*fetched.values()}) == (5, {1})  # the dataset's four files, the code


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
