"""What a pipeline with a Transform, a Tuning and a Callback step lets its roles do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.settings.loading.loader import load_environment
from tests.identity.synth import templates_of
from tests.identity.templates import Templates
from tests.identity.test_authorization_data import accepted, mistakes_in
from tests.repository import CHECKOUT, ROOT

ARN = "arn:aws:sagemaker:us-east-1:111122223333"


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    settings = load_environment("dev", ROOT).model_copy(
        update={"pipeline": "packages.shoal.tests.pipelines.other_steps:build"}
    )
    folder: Path = tmp_path_factory.mktemp("other_steps")
    return templates_of([settings], CHECKOUT, folder)  # ROOT has links on the way to the module


@pytest.fixture(scope="module")
def statements(templates: Templates) -> dict[str, dict[str, Any]]:
    return {
        statement["Sid"]: statement
        for _, document in templates.documents()
        for statement in document["Statement"]
        if "Sid" in statement
    }


def test_every_action_takes_the_resources_and_conditions_of_its_statement(
    templates: Templates,
) -> None:
    assert [line for line in mistakes_in(templates) if not accepted(line)] == []


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
