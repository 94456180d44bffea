"""`shoal plan` names the stacks that a synth makes, in the order of their deployment."""

from __future__ import annotations

import aws_cdk as cdk
import pytest
from aws_cdk.cx_api import CloudFormationStackArtifact

from shoal.costs.plan import plan
from shoal.settings.loading.loader import load_environment
from shoal.settings.settings import Environment
from stacks.platform import EnvironmentStage
from tests.repository import ROOT
from tests.settings.releases import CONTENT
from tests.stacks.conftest import MakeStage, StageOf
from tests.stacks.variants import variant


def _stacks(stage: EnvironmentStage) -> dict[str, cdk.Stack]:
    return {
        child.stack_name: child for child in stage.node.children if isinstance(child, cdk.Stack)
    }


def _shown(environment: Environment) -> list[str]:
    return [stack.name for stack in plan(environment).stacks]


def _too_early(stage: EnvironmentStage, shown: list[str]) -> list[tuple[str, str]]:
    """Yield each stack that is shown before one it needs, and that one; the assembly's manifest has
    the dependencies that the CLI follows.
    """
    artifacts = stage.synth().stacks
    needs = {
        each.stack_name: [
            other.stack_name
            for other in each.dependencies
            if isinstance(other, CloudFormationStackArtifact)
        ]
        for each in artifacts
    }
    assert any(needs.values())
    return [
        (name, other)
        for name, others in needs.items()
        for other in others
        if shown.index(other) > shown.index(name)
    ]


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_plan_names_the_stacks_of_an_environment(stage_of: StageOf, name: str) -> None:
    assert set(_shown(load_environment(name, ROOT))) == set(_stacks(stage_of(name)))


@pytest.fixture(scope="module")
def full(
    tmp_path_factory: pytest.TempPathFactory, make_stage: MakeStage
) -> tuple[Environment, EnvironmentStage]:
    """An environment with all optional stacks."""
    environment = variant(
        tmp_path_factory.mktemp("full"),
        "full",
        data={"input_mode": "FSx"},
        file_system={},
        training={"build_image": "pytorch-smddp"},
        release=CONTENT,
        serving={},
    )
    return environment, make_stage(environment)


def test_the_plan_names_stacks_that_are_there_only_when_asked_for(
    full: tuple[Environment, EnvironmentStage],
) -> None:
    environment, stage = full
    assert set(_shown(environment)) == set(_stacks(stage))


def test_the_plan_shows_no_stack_before_one_that_it_needs(
    full: tuple[Environment, EnvironmentStage],
) -> None:
    environment, stage = full
    assert _too_early(stage, _shown(environment)) == []
