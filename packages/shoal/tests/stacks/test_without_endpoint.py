"""The stacks of an environment whose models are trained and registered only."""

from __future__ import annotations

import json

import pytest
from aws_cdk.assertions import Template

from stacks.platform import EnvironmentStage
from tests.stacks.conftest import MakeStage
from tests.stacks.reading import properties, resources, statements

NAME = "shoal-mnist-dev"


@pytest.fixture(scope="module")
def stage(make_stage: MakeStage) -> EnvironmentStage:
    return make_stage("dev", endpoint=None)


@pytest.fixture(scope="module")
def template(stage: EnvironmentStage) -> Template:
    return Template.from_stack(stage.workloads[0].pipeline)


def test_there_is_no_function_for_endpoints_and_no_queue(template: Template) -> None:
    functions = {each["FunctionName"] for each in properties(template, "AWS::Lambda::Function")}
    assert functions == {f"{NAME}-seal", f"{NAME}-empty-registry"}
    assert resources(template, "AWS::SQS::Queue") == {}
    assert resources(template, "AWS::Events::Rule") == {}


def test_there_is_no_role_for_endpoints(template: Template) -> None:
    roles = {each["RoleName"] for each in properties(template, "AWS::IAM::Role")}
    actors = ("training", "evaluation", "pipeline", "seal", "empty-registry")
    assert roles == {f"{NAME}-us-east-1-{actor}" for actor in actors}


def test_the_pipeline_may_create_no_models_and_no_endpoints(template: Template) -> None:
    allowed = json.dumps(statements(template, f"{NAME}-us-east-1-pipeline"))
    assert "sagemaker:CreateModelPackage" in allowed
    assert 'sagemaker:CreateModel"' not in allowed
    assert "sagemaker:CreateEndpoint" not in allowed


def test_the_dashboard_and_the_alarms_name_nothing_of_an_endpoint(stage: EnvironmentStage) -> None:
    monitoring = Template.from_stack(stage.workloads[0].monitoring)
    (dashboard,) = properties(monitoring, "AWS::CloudWatch::Dashboard")
    assert f"{NAME}-smoke-test" not in json.dumps(dashboard)
    assert "AWS/SageMaker" not in json.dumps(dashboard)
    alarms = {each["AlarmName"] for each in properties(monitoring, "AWS::CloudWatch::Alarm")}
    assert {f"{NAME}-execution-failed", f"{NAME}-seal-errors", f"{NAME}-sweep-missed"} <= alarms
    assert {f"{NAME}-not-torn-down", f"{NAME}-teardown-errors"} & alarms == set()
