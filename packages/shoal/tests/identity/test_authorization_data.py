"""Every statement of every policy says something that IAM understands, by AWS's service
authorization reference, also for steps that Shoal's pipeline has none of and for scoring.

IAM accepts a policy with an action that does not take its resource or its condition key: it just
never matches, and what it should allow fails on AWS. cfn-lint looks at the names of actions only.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.schedules import Schedule
from shoal.settings.sections.scoring import Scoring
from tests.identity.permissions import read
from tests.identity.reference import mistakes
from tests.identity.synth import templates_of
from tests.identity.templates import Templates
from tests.repository import CHECKOUT, ROOT

ACCEPTED = {
    "RegisterPendingOnly: no action of the statement is done to arn:aws:sagemaker:us-east-1:{account}:model-package-group/": (  # noqa: E501
        "AWS's pages name the group as a resource of CreateModelPackage, the machine-readable"
        " reference only the package. Naming both allows a version in this group only, whichever of"
        " them SageMaker asks about."
    ),
    "sagemaker:OutputKmsKey is no condition key of": (
        "AWS's own cdk-aws-sagemaker-role-manager still asks for the deprecated name. The condition"
        " holds without it, too."
    ),
    "FileSystemsThroughS3: kms:EncryptionContext:aws:s3:arn is no condition key of kms:DescribeKey": (  # noqa: E501
        "The statement is the one that the FSx user guide gives for encrypted buckets; its"
        " DescribeKey is without effect."
    ),
}
"""What the reference says against a statement, and why it stays nevertheless."""
ROWS = read("statements.yaml")


def mistakes_in(templates: Templates) -> list[str]:
    """Return what AWS's reference says against statements of the templates."""
    return [
        f"{logical_id}.{statement.get('Sid', '')}: {mistake}"
        for logical_id, document in templates.documents()
        for statement in document["Statement"]
        for mistake in mistakes(statement)
    ]


def accepted(line: str) -> str:
    """Return the exception that the line falls under, if any."""
    exceptions = (
        text
        for text in ACCEPTED
        if any(text.format(account=account) in line for account in ("111122223333", "333344445555"))
    )
    return next(exceptions, "")


@pytest.mark.parametrize("environment", ["dev", "prod", "everything", "other_steps", "scored"])
def test_every_action_takes_the_resources_and_conditions_of_its_statement(
    templates: dict[str, Templates], other_steps: Templates, scored: Templates, environment: str
) -> None:
    every = templates | {"other_steps": other_steps, "scored": scored}
    assert [line for line in mistakes_in(every[environment]) if not accepted(line)] == []


def test_no_exception_is_out_of_date(templates: dict[str, Templates]) -> None:
    assert {accepted(line) for line in mistakes_in(templates["everything"])} == ACCEPTED.keys()


@pytest.mark.parametrize("row", ROWS["mistaken"], ids=lambda row: row["says"])
def test_what_iam_would_accept_and_never_match_is_found(row: dict[str, Any]) -> None:
    assert any(row["says"] in mistake for mistake in mistakes(row))


@pytest.mark.parametrize("statement", ROWS["right"], ids=lambda each: each["Action"])
def test_what_the_reference_knows_is_not_complained_about(statement: dict[str, Any]) -> None:
    assert list(mistakes(statement)) == []


ARN = "arn:aws:sagemaker:us-east-1:111122223333"


@pytest.fixture(scope="module")
def other_steps(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    settings = load_environment("dev", ROOT).model_copy(
        update={"pipeline": "packages.shoal.tests.pipelines.other_steps:build"}
    )
    folder: Path = tmp_path_factory.mktemp("other_steps")
    return templates_of([settings], CHECKOUT, folder)  # ROOT has links on the way to the module


@pytest.fixture(scope="module")
def statements(other_steps: Templates) -> dict[str, dict[str, Any]]:
    return {
        statement["Sid"]: statement
        for _, document in other_steps.documents()
        for statement in document["Statement"]
        if "Sid" in statement
    }


def test_a_transform_runs_with_the_pipelines_own_models_only(
    statements: dict[str, dict[str, Any]],
) -> None:
    start = statements["StartTransform"]
    assert start["Resource"] == f"{ARN}:transform-job/pipelines-*"
    assert start["Condition"]["ArnLike"] == {
        "sagemaker:ModelArn": [f"{ARN}:model/pipelines-*", f"{ARN}:model/shoal-mnist-dev-*"]
    }
    assert start["Condition"]["ForAllValues:StringEquals"] == {
        "sagemaker:InstanceTypes": ["ml.m5.xlarge"]
    }


def test_a_tuning_job_stays_in_the_limits_of_a_training(
    statements: dict[str, dict[str, Any]],
) -> None:
    assert statements["StartTuning"]["Condition"] == statements["StartTraining"]["Condition"]


def test_the_pipeline_sends_to_the_queue_of_its_callback_only(
    statements: dict[str, dict[str, Any]],
) -> None:
    queue = "arn:aws:sqs:us-east-1:111122223333:questions"
    assert statements["CallQueues"]["Resource"] == queue


def test_the_models_role_writes_results_into_their_folder_only(
    statements: dict[str, dict[str, Any]],
) -> None:
    bucket = "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1"
    assert statements["WriteTransform"]["Resource"] == f"{bucket}/transform/*"


SCHEDULE = Schedule(name="nightly", expression="cron(0 4 * * ? *)")
SCORE = "shoal-mnist-dev-score"
ROLE = f"{SCORE}-us-east-1-"


def written(folder: Path, scoring: Scoring | None) -> Templates:
    settings = load_environment("dev", ROOT).model_copy(update={"scoring": scoring})
    return templates_of([settings], CHECKOUT, folder)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return written(tmp_path_factory.mktemp("scoring"), Scoring(schedules=(SCHEDULE,)))


def test_each_role_does_its_part_and_nothing_of_a_training(scored: Templates) -> None:
    policies = scored.identity_policies()
    own = {name: each for name, each in policies.items() if name.startswith(ROLE)}
    parts = {name.removeprefix(ROLE) for name in own}
    watching = {"pages", "sweep"}
    assert parts == {"model", "find", "teardown", "pipeline", "start", "scheduler", *watching}
    rows = [row for each in own.values() for of in each.values() for row in of["Statement"]]
    text = json.dumps([row for row in rows if row["Effect"] == "Allow"])
    allowed = set(re.findall(r"sagemaker:Create\w+", text))
    assert allowed == {"sagemaker:CreateModel", "sagemaker:CreateTransformJob"}
    assert "datasets/mnist/score/*" in text
    assert "datasets/*" not in text
    executions = set(re.findall(r"pipeline/([a-z-]+)/execution", text))
    assert executions == {SCORE}


def test_what_trains_is_as_without_it(scored: Templates, tmp_path: Path) -> None:
    without = written(tmp_path, None).identity_policies()
    policies = scored.identity_policies()
    assert {name: policies[name] for name in without} == without
