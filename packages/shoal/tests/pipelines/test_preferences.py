"""Lists of types in `training.capacity`: definition.yaml and checked.yaml have their requests."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipelines.checks import capacity
from shoal.pipelines.checks.check import check
from shoal.pipelines.limits import limits, training_plans
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from tests.pipelines.inputs import changed

P4D, P4DE, CPU = "ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.m5.xlarge"
PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/p4d"
KEYS = ("instance_type", "instance_count", "training_plan_arns")


def with_capacity(*preferences: tuple[Any, ...]) -> Environment:
    """Return the golden environment with this list, whose first type it trains on."""
    listed = [dict(zip(KEYS, each, strict=False)) for each in preferences]
    training = {"new": True, "strategy": "torchrun", "capacity": {"preferences": listed}}
    return changed(training=training)


def test_a_list_tells_its_types_and_plans_to_the_pipelines_role() -> None:
    settings = with_capacity((P4D, 2, [PLAN]), (P4DE, 1))
    definition = check(settings).definition
    allowed = limits(definition, "Training")
    assert training_plans(definition) == [PLAN]
    assert allowed is not None
    assert set(allowed.instance_types) == set(settings.training.candidates)


def test_a_type_that_an_execution_may_choose_runs_the_same_request() -> None:
    definition = check(changed(training={"other_instance_types": [P4DE]})).definition
    (parameter,) = [each for each in definition["Parameters"] if each["Name"] == "InstanceType"]
    assert parameter["EnumValues"] == [P4D, P4DE]
    with pytest.raises(ConfigError, match=f'other_instance_types = "{CPU}": cannot run there'):
        check(changed(training={"other_instance_types": [CPU]}))


def test_the_type_with_the_most_nodes_needs_room_and_quota() -> None:
    listed = with_capacity((P4D, 1), (P4DE, 7))
    alone = with_capacity((P4DE, 7))
    assert capacity.addresses(listed).job == capacity.addresses(alone).job
    counts = {need.quota.name: need.count for need in capacity.needs(listed)}
    assert counts["Maximum number of instances per training job"] == 7
