"""A fast part of `make chaos`, and nightly a part of its pairs: the same rig, the cases that differ
most, and proof that it can report what it looks for.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.chaos import pairs, rig
from tests.chaos.__main__ import summarise
from tests.chaos.bystanders import Bystanders
from tests.chaos.cases import FAST, NOTHING_WRONG, Case, Circumstance, Trouble, cases, troubles
from tests.chaos.deployment import checkout_with_twins, synthesise
from tests.chaos.rig import Result, variant
from tests.chaos.world import World
from tests.repository import ROOT

AT_ONCE = 5
UNPROTECTED = Circumstance("nothing on", step="none", rule=False, sweeper=False)
ONLY_THE_STEP = Circumstance("neither deleter nor sweeper", step="any", rule=False, sweeper=False)
MISJUDGED = Case(
    Trouble("Gate", "lets pass what is said to fail", "Failed"), Circumstance("all layers")
)
"""Nothing is wrong with its execution; the rig is told that the gate lets nothing through."""


@dataclass(frozen=True)
class Attack:
    """What the fast cases came to, and what was reported when the deleter was set on a bystander at
    last.
    """

    results: dict[str, Result]
    touched: list[str]


def _deployed(folder: Path, root: Path = ROOT) -> Iterator[World]:
    left: list[str] = []
    with World.running(synthesise(folder / "cdk.out", root), folder / "world", left) as world:
        world.deploy()
        yield world
    assert left == []


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from _deployed(tmp_path_factory.mktemp("chaos"))


@pytest.fixture(scope="module")
def attack(world: World) -> Attack:
    """The cases run at the same time."""
    chosen = [*(case for case in cases() if case.name in FAST), MISJUDGED]
    chosen.sort(key=lambda case: case.switches, reverse=True)
    touched: list[str] = []

    def set_the_deleter_on(bystanders: Bystanders) -> None:
        payload = json.dumps({"pipeline_execution_arn": bystanders.execution})
        world.client("lambda").invoke(
            FunctionName=world.names.function("teardown"), Payload=payload
        )
        touched.extend(bystanders.disturbed())

    results = rig.run(world, chosen, AT_ONCE, lambda _result: None, set_the_deleter_on)
    return Attack({result.name: result for result in results}, touched)


def require_survival(result: Result) -> None:
    assert (result.problems, result.left) == ([], [])


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAST)
def test_a_case_ends_as_documented_and_leaves_nothing(attack: Attack, name: str) -> None:
    require_survival(attack.results[name])


@pytest.mark.nightly
def test_bystanders_leave_nothing_when_they_are_stopped_and_the_account_is_as_before(
    attack: Attack, world: World
) -> None:
    assert set(attack.results) == {*FAST, MISJUDGED.name}
    assert world.dead_letters() == 0
    ended = world.client("sagemaker").list_training_jobs(WarmPoolStatusEquals="Terminated")
    assert ended["TrainingJobSummaries"] != []  # else no case had a pool to leave


@pytest.mark.nightly
def test_a_deleter_that_takes_somebody_elses_endpoint_is_reported(attack: Attack) -> None:
    (endpoint,) = [line for line in attack.touched if "model of" not in line]
    assert endpoint.startswith("a bystander was touched: ")
    assert "Could not find endpoint" in endpoint


@pytest.mark.nightly
def test_a_package_that_no_gate_let_through_and_another_end_than_the_documented_one_are_reported(
    attack: Attack,
) -> None:
    status, packages = attack.results[MISJUDGED.name].problems
    assert status.startswith("the execution ended Succeeded, documented is Failed")
    assert packages == "1 packages registered, 0 to 0 expected"


@pytest.mark.nightly
@pytest.mark.usefixtures("attack")
def test_without_deleter_and_sweeper_cases_fail_whether_the_step_is_there_or_not(
    world: World,
) -> None:
    """The step alone does not run when the endpoint failed."""
    by_name = {(trouble.step, trouble.fault): trouble for trouble in troubles()}
    fails = by_name["CreateEndpoint", "fails"]
    leaky = [Case(NOTHING_WRONG, UNPROTECTED), Case(fails, ONLY_THE_STEP)]
    world.layers(rule=False, sweeper=False)
    try:
        attempt = partial(rig.run_case, world, bystanders=None, clean_limit_s=4.0)
        with ThreadPoolExecutor(len(leaky)) as pool:
            results = [*pool.map(attempt, leaky)]
    finally:
        world.layers(rule=True, sweeper=True)
    for result in results:
        kinds = sorted(each.partition("/")[0].split()[0] for each in result.left)
        kept = [kind for kind in kinds if kind != "process"]
        assert kept == ["endpoint", "endpoint-config", "model"]
        assert result.problems == []
        assert summarise([result]) == 1
        with pytest.raises(AssertionError):
            require_survival(result)


def test_every_case_has_a_name_and_a_seed_of_its_own() -> None:
    every = cases()
    names, seeds = {case.name for case in every}, {case.seed for case in every}
    assert len(names) == len(seeds) == len(every) >= 200


def test_a_variant_of_the_definition_has_no_teardown_step_or_one_after_anything() -> None:
    smoke_test = {"Name": "SmokeTest", "Type": "Lambda"}
    teardown = {"Name": "Teardown", "Type": "Lambda", "DependsOn": ["SmokeTest"]}
    branches = {"IfSteps": [smoke_test, teardown], "ElseSteps": []}
    definition = {"Steps": [{"Name": "Gate", "Type": "Condition", "Arguments": branches}]}
    (gate,) = variant(definition, "none")["Steps"]
    assert gate["Arguments"]["IfSteps"] == [smoke_test]
    (gate,) = variant(definition, "any")["Steps"]
    assert gate["Arguments"]["IfSteps"][1]["DependsOn"] == [{"Step": "SmokeTest", "Trigger": "Any"}]


NAME = "two-workloads-CreateEndpoint-fails-no-step"


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("pairs")
    yield from _deployed(folder, checkout_with_twins(folder / "checkout"))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_workload_whose_endpoint_fails_touches_nothing_of_the_other(of_two: World) -> None:
    chosen = [pair for pair in pairs.pairs() if pair.name == NAME]
    results = pairs.run(of_two, chosen, lambda _result: None)
    assert [(each.name, each.problems, each.left) for each in results] == [(NAME, [], [])]
    assert [each.dead_letters() for each in of_two.each] == [0, 0]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_what_touches_the_other_workload_is_reported(of_two: World) -> None:
    """The deleter of one is set on the other, and a person deletes what serves."""
    first, second = of_two.each
    seen = len(of_two.requests())
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
    requests = of_two.requests()[seen:]
    names = (first.names, second.names)
    assert ("FunctionError" in answer, untouched) == (True, True)
    assert not other.result().survived
    person = f"arn:aws:iam::{of_two.names.environment.account}:root"
    assert [*pairs.trespasses(requests, names)] == [  # IAM refuses the deleter's
        f"{first.names.role('teardown')} asked for UpdateTrainingJob of {second.names.prefix}",
        f"{person} asked for DeleteEndpoint of {second.names.prefix}",
    ]
