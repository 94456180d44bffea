"""A fast part of `make chaos`: the same rig, one emulator, the cases that differ most; and proof that the rig can report a leak."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos import rig
from tests.chaos.__main__ import summarise
from tests.chaos.cases import FAST, Case, Circumstance, Trouble, cases
from tests.chaos.deployment import synthesise
from tests.chaos.rig import Result, variant
from tests.chaos.world import World

AT_ONCE = 5
UNPROTECTED = Circumstance("nothing on", step="none", rule=False, sweeper=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("chaos")
    world = World(synthesise(folder / "cdk.out"), folder / "world")
    world.start()
    try:
        world.deploy()
        yield world
    finally:
        left = world.stop()
    assert left == []


@pytest.fixture(scope="module")
def results(world: World) -> dict[str, Result]:
    """Of the fast cases, which run beside each other."""
    chosen = [case for case in cases() if case.name in FAST]
    return {result.name: result for result in rig.run(world, chosen, AT_ONCE, lambda _result: None)}


@pytest.mark.parametrize("name", FAST)
def test_a_case_ends_as_documented_and_leaves_nothing(results: dict[str, Result], name: str) -> None:
    assert (results[name].problems, results[name].left) == ([], [])


def test_bystanders_were_not_touched(results: dict[str, Result]) -> None:
    assert set(results) == set(FAST)


@pytest.mark.usefixtures("results")
def test_without_any_layer_the_rig_reports_what_leaks(world: World) -> None:
    case = Case(Trouble("nothing", "wrong", "Succeeded", packages=(1, 1)), UNPROTECTED)
    world.layers(rule=False, sweeper=False)
    try:
        result = rig.run_case(world, case, None, clean_limit_s=4.0)
    finally:
        world.layers(rule=True, sweeper=True)
    kinds = sorted(each.partition("/")[0].split()[0] for each in result.left)
    assert [kind for kind in kinds if kind != "process"] == ["endpoint", "endpoint-config", "model"]
    assert summarise([result]) == 1


def test_every_case_has_a_name_and_a_seed_of_its_own() -> None:
    every = cases()
    assert len({case.name for case in every}) == len({case.seed for case in every}) == len(every) >= 200


def test_a_variant_of_the_definition_has_no_teardown_step_or_one_after_anything() -> None:
    smoke_test = {"Name": "SmokeTest", "Type": "Lambda"}
    teardown = {"Name": "Teardown", "Type": "Lambda", "DependsOn": ["SmokeTest"]}
    definition = {"Steps": [{"Name": "AccuracyGate", "Arguments": {"IfSteps": [smoke_test, teardown], "ElseSteps": []}}]}
    (gate,) = variant(definition, "none")["Steps"]
    assert gate["Arguments"]["IfSteps"] == [smoke_test]
    (gate,) = variant(definition, "any")["Steps"]
    assert gate["Arguments"]["IfSteps"][1]["DependsOn"] == [{"Step": "SmokeTest", "Trigger": "Any"}]
