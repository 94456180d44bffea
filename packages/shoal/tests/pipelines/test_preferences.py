"""`training.capacity`: what a training job asks for, and which lists cannot be one request."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipelines.checks import capacity, quotas
from shoal.pipelines.checks.check import check
from shoal.pipelines.limits import limits, training_plans
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from tests.pipelines.inputs import changed, environment

P4D, P4DE, P3DN, CPU = "ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p3dn.24xlarge", "ml.m5.xlarge"
PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/p4d"
TYPE, COUNT = ({"Get": f"Parameters.Instance{each}"} for each in ("Type", "Count"))
NOT_SPOT = {"spot", "max_wait_s"}
TORCHRUN = {"strategy": "torchrun", "custom_mpi_options": ""}
KEYS = ("instance_type", "instance_count", "training_plan_arns")


def with_capacity(*preferences: tuple[Any, ...], **keys: Any) -> Environment:
    """Return the golden environment with this list, whose first type it trains on."""
    listed = [dict(zip(KEYS, each, strict=False)) for each in preferences]
    section = environment().training.model_copy(update=TORCHRUN)
    others = {key: getattr(section, key) for key in section.model_fields_set - NOT_SPOT - {*KEYS}}
    training = {"new": True, **others, "capacity": keys.pop("capacity", {}), **keys}
    training["capacity"] |= {"preferences": listed}
    return changed(training=training)


@pytest.mark.parametrize(
    ("preferences", "keys", "cluster", "condition"),
    [
        ((), {}, {"InstanceType": TYPE, "InstanceCount": COUNT}, {}),
        (
            ((P4D,), (P4DE,)),
            {"max_pending_s": 1800, "infra_check": True},
            {
                "InstancePreferences": [{"InstanceType": P4D}, {"InstanceType": P4DE}],
                "InstanceCount": COUNT,
            },
            {"MaxPendingTimeInSeconds": 1800},
        ),
        (
            ((P4D, 2, [PLAN]), (P4DE, 1)),
            {},
            {
                "InstancePreferences": [
                    {"InstanceType": P4D, "InstanceCount": 2, "TrainingPlanArns": [PLAN]},
                    {"InstanceType": P4DE, "InstanceCount": 1},
                ]
            },
            {},
        ),
        (
            (),
            {"training_plan_arn": PLAN},
            {"InstanceType": TYPE, "InstanceCount": COUNT, "TrainingPlanArn": PLAN},
            {},
        ),
    ],
)
def test_the_request_has_what_the_file_says(
    preferences: Any, keys: dict[str, Any], cluster: dict[str, Any], condition: dict[str, Any]
) -> None:
    settings = with_capacity(*preferences, capacity=keys)
    definition = check(settings).definition
    request = definition["Steps"][0]["Arguments"]
    assert ("sagemaker_instance_type" in request["HyperParameters"]) == (not preferences)
    volume, runtime = settings.training.volume_size_gb, settings.training.max_runtime_s
    assert request["ResourceConfig"] == cluster | {"VolumeSizeInGB": volume}
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": runtime} | condition
    declared = {each["Name"] for each in definition["Parameters"]}
    for name in ("InstanceType", "InstanceCount"):  # no parameter that would change nothing
        assert (name in declared) == (name in cluster)
    assert training_plans(definition) == ([PLAN] if PLAN in str(request) else [])
    allowed = limits(definition, "Training")
    assert allowed is not None
    assert set(allowed.instance_types) == set(settings.training.candidates)


@pytest.mark.parametrize(
    ("preferences", "keys", "expected"),
    [
        (
            ((P4D,), ("ml.p4d.99xlarge",)),
            {},
            "'ml.p4d.99xlarge' is not one of",
        ),
        (((P4D,), (CPU,)), {"strategy": "smddp"}, f'preferences = "{CPU}": cannot run there'),
        (
            ((P4D,), ("ml.g5.xlarge",)),
            {},
            f"needs other Environment than {P4D}; give it an environment of its own",
        ),
        (
            ((CPU,),),
            {"capacity": {"max_pending_s": 1800}},
            "training.capacity.max_pending_s = 1800: bounds the wait for accelerated types only",
        ),
        (
            ((P4D,),),
            {"capacity": {"remote_debug": True}},
            "training.capacity.remote_debug = true: the container's agent has no way from this VPC"
            " to Systems Manager; add ssmmessages to network.interface_endpoints",
        ),
    ],
)
def test_a_list_that_cannot_be_one_request_is_one_line(
    preferences: Any, keys: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(with_capacity(*preferences, **keys))
    (line,) = str(caught.value).splitlines()
    assert expected in line


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
    counts = {need.quota.name: need.count for need in quotas.needs(listed)}
    assert counts["Maximum number of instances per training job"] == 7
