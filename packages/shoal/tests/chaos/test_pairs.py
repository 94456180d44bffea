"""Nightly: a part of the pairs that `make chaos` runs, and proof that a trespass is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.chaos import pairs
from tests.chaos.deployment import checkout_with_twins, synthesise
from tests.chaos.world import World

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
NAME = "two-workloads-CreateEndpoint-fails-no-step"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "checkout").mkdir()
    root = checkout_with_twins(folder / "checkout")
    world = World(synthesise(folder / "cdk.out", root), folder / "world")
    world.start()
    try:
        world.deploy()
        yield world
    finally:
        left = world.stop()
    assert left == []


def test_a_workload_whose_endpoint_fails_touches_nothing_of_the_other(world: World) -> None:
    chosen = [pair for pair in pairs.pairs() if pair.name == NAME]
    results = pairs.run(world, chosen, lambda _result: None)
    assert [(each.name, each.problems, each.left) for each in results] == [(NAME, [], [])]
    assert [each.dead_letters() for each in world.each] == [0, 0]


def test_what_touches_the_other_workload_is_reported(world: World) -> None:
    """The deleter of one is set on the other, and a person deletes what serves."""
    first, second = world.each
    seen = len(world.requests())
    with pairs.undisturbed(second, held=True) as other:
        before = pairs.served(second)
        (endpoint,) = [each["EndpointName"] for each in before.values() if "EndpointName" in each]
        execution = endpoint.removeprefix(f"{second.names.pipeline}-")
        arn = f"{second.names.pipeline_arn}/execution/{execution}"
        answer = first.client("lambda").invoke(
            FunctionName=first.names.function("teardown"),
            Payload=json.dumps({"pipeline_execution_arn": arn}),
        )
        untouched = pairs.served(second) == before
        second.client("sagemaker").delete_endpoint(EndpointName=endpoint)
    requests = world.requests()[seen:]
    names = (first.names, second.names)
    assert ("FunctionError" in answer, untouched) == (True, True)
    assert not other.result().survived
    assert [*pairs.trespasses(requests, names)] == [
        f"arn:aws:iam::{world.names.environment.account}:root asked for DeleteEndpoint of"
        f" {second.names.prefix}"
    ]
