"""Step caching: what ran with the same attributes is not run again, and its result is passed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from local_kit.sagemaker_account import Account, shell_step
from shoal_local.errors import AwsError
from shoal_local.sagemaker.pipelines.definition.caching import cache_key, duration_s

WORD = {"Name": "Word", "Type": "String", "DefaultValue": "one"}
Execute = Callable[..., dict[str, Any]]


def make_step(expire_after: str, **arguments: Any) -> dict[str, Any]:
    word = {"Environment": {"WORD": {"Get": "Parameters.Word"}}}
    cache = {"Enabled": True, "ExpireAfter": expire_after}
    return shell_step("Make", "true", CacheConfig=cache, Arguments=word | arguments)


def use_step() -> dict[str, Any]:
    """A step that needs the made job's ARN."""
    made = {"MADE": {"Get": "Steps.Make.ProcessingJobArn"}}
    script = 'case "$MADE" in *processing-job/pipelines-*-make-*) ;; *) exit 3 ;; esac'
    return shell_step("Use", script, Arguments={"Environment": made})


@pytest.fixture(scope="module")
def first(account: Account) -> dict[str, Any]:
    """The first execution of the pipeline `cached`."""
    account.deploy_pipeline("cached", [make_step("PT1H"), use_step()], Parameters=[WORD])
    execution = account.execute("cached")
    assert execution["PipelineExecutionStatus"] == "Succeeded", account.steps(execution)
    return execution


def test_the_same_step_again_is_a_hit_and_hands_its_result_on(
    account: Account, first: dict[str, Any]
) -> None:
    made = account.steps(first)["Make"]
    for _ in range(2):  # a hit of a hit names the execution that ran the step
        execution = account.execute("cached")
        assert execution["PipelineExecutionStatus"] == "Succeeded"
        steps = account.steps(execution)
        assert steps["Make"]["CacheHitResult"] == {
            "SourcePipelineExecutionArn": first["PipelineExecutionArn"]
        }
        assert steps["Make"]["Metadata"] == made["Metadata"]
        assert "CacheHitResult" not in steps["Use"]
    assert "CacheHitResult" not in made


def test_another_environment_and_an_old_run_are_no_hits(
    account: Account, first: dict[str, Any]
) -> None:
    other = account.execute("cached", PipelineParameters=[{"Name": "Word", "Value": "two"}])
    assert "CacheHitResult" not in account.steps(other)["Make"]
    account.deploy_pipeline("expired", [make_step("PT0M")], Parameters=[WORD])
    made = [account.steps(account.execute("expired"))["Make"] for _ in range(2)]
    assert [("CacheHitResult" in each, each["StepStatus"]) for each in made] == [
        (False, "Succeeded"),
        (False, "Succeeded"),
    ]


@pytest.mark.parametrize(
    ("kind", "same", "other"),
    [
        ("Training", {"ResourceConfig": {"InstanceCount": 2}}, {"HyperParameters": {"a": "1"}}),
        ("Processing", {"ProcessingResources": {}}, {"ProcessingInputs": []}),
        ("Transform", {"TransformOutput": {}}, {"ModelName": "other"}),
        (
            "Tuning",
            {"TrainingJobDefinition": {"RoleArn": "arn"}},
            {"TrainingJobDefinition": {"StaticHyperParameters": {"a": "1"}}},
        ),
    ],
)
def test_the_key_has_the_documented_attributes_only(
    kind: str, same: dict[str, Any], other: dict[str, Any]
) -> None:
    arguments = {"Environment": {"A": "1"}, "RoleArn": "arn"}
    key = cache_key(kind, arguments)
    assert key == cache_key(kind, arguments | same)
    assert key != cache_key(kind, arguments | other)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1H", 3600),
        ("P30DT5H", 30 * 86400 + 5 * 3600),
        ("30dT5h", 30 * 86400 + 5 * 3600),
        ("T16m", 16 * 60),
        ("5y", 5 * 365 * 86400),
        ("P1M2W", 44 * 86400),
    ],
)
def test_durations_are_read_as_the_guide_writes_them(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1", "P1H", "PT5S"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(AwsError, match="is not an ISO 8601 duration"):
        duration_s(text)
