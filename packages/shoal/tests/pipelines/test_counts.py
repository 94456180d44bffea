"""The cost of building a definition, in function calls, so that any machine sees a large increase.

A limit is the count of the day it was written and a quarter more. A change with a reason to exceed
it writes the new one down here.
"""

from __future__ import annotations

from pathlib import Path

from local_kit.counting import calls_of
from pipelines.training import training_pipeline
from shoal.launch import launch_of
from shoal.pipelines.checks.check import placeholder_infrastructure
from shoal.pipelines.own_pipeline import definition_of
from tests.pipelines.inputs import environment, infrastructure
from tests.pipelines.test_own_pipeline import TINY, module

CALLS_OF_A_DEFINITION = 1755
"""Once the tables are read. It takes half a millisecond."""
MAX_CALLS = CALLS_OF_A_DEFINITION * 5 // 4
MAX_GROWTH = 5.5
"""Calls for a definition of 50 steps, in those for one of 10."""


def test_building_a_definition_makes_about_as_many_calls_as_it_did() -> None:
    settings, stacks = environment(), infrastructure()
    training_pipeline(settings, stacks, launch_of(settings)).to_dict()
    assert (
        MAX_CALLS // 2
        < calls_of(
            lambda: training_pipeline(settings, stacks, launch_of(settings)).to_dict()
        ).total()
        <= MAX_CALLS
    )


def _calls_of_own(steps: int, root: Path) -> int:
    """Return the calls to check a user's own definition of that many steps."""
    text = TINY.replace(
        '"Steps": [step]',
        f'"Steps": [{{**step, "Name": f"Tiny{{each}}"}} for each in range({steps})]',
    )
    settings = environment().model_copy(update={"pipeline": f"{module(root, text)}:build"})
    placeholder = placeholder_infrastructure(settings)
    launch = launch_of(settings, root)
    assert len(definition_of(settings, placeholder, launch, root)["Steps"]) == steps
    return calls_of(lambda: definition_of(settings, placeholder, launch, root)).total()


def test_the_cost_of_checking_a_definition_grows_no_faster_than_its_steps(tmp_path: Path) -> None:
    assert _calls_of_own(50, tmp_path) <= MAX_GROWTH * _calls_of_own(10, tmp_path)
