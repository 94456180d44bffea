"""`shoal plan` names the stacks that a synth makes, in the order of their deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk

from config.loader import load_environment
from pipelines.costs.plan import plan
from stacks.app import ShoalApp
from stacks.stage import EnvironmentStage
from tests.stacks.variants import ROOT, variant


def _names(stage: EnvironmentStage) -> list[str]:
    return [child.stack_name for child in stage.node.children if isinstance(child, cdk.Stack)]


def test_the_plan_names_the_stacks_of_an_environment(stages: dict[str, EnvironmentStage]) -> None:
    for name, stage in stages.items():
        assert [stack.name for stack in plan(load_environment(name, ROOT)).stacks] == _names(stage)


def test_the_plan_names_stacks_that_are_there_only_when_asked_for(tmp_path: Path, cdk_context: dict[str, Any]) -> None:
    training = {"build_image": "pytorch-smddp"}
    environment = variant(tmp_path, "full", data={"input_mode": "FSx"}, file_system={}, training=training)
    stage = EnvironmentStage(ShoalApp(outdir=str(tmp_path), context=cdk_context, checked=False), environment=environment, root=ROOT)
    assert [stack.name for stack in plan(environment).stacks] == _names(stage)
