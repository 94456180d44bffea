"""The pipeline as CloudFormation gets it, and what stands around it to clean up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk.assertions import Template

from shoal.constructs.pipeline.training_pipeline import images
from tests.stacks.conftest import TemplateOf
from tests.stacks.reading import definition, named, properties, resources, statements

BRANCH = (
    "Seal",
    "Register",
    "CreateModel",
    "CreateEndpointConfig",
    "CreateEndpoint",
    "SmokeTest",
    "Teardown",
)


def _branch(pipeline: Template) -> dict[str, dict[str, Any]]:
    gate = definition(pipeline)["Steps"][-1]
    return {step["Name"]: step for step in gate["Arguments"]["IfSteps"]}


def test_the_definition_in_the_template_is_json_with_all_steps(pipeline: Template) -> None:
    assert [step["Name"] for step in definition(pipeline)["Steps"]] == [
        "Train",
        "Evaluate",
        "Gate",
    ]
    assert tuple(_branch(pipeline)) == BRANCH


def test_training_gets_the_one_training_subnet(pipeline: Template) -> None:
    (subnet,) = definition(pipeline)["Steps"][0]["Arguments"]["VpcConfig"]["Subnets"]
    assert "TrainingSubnet" in subnet


def test_lambda_steps_call_the_functions_of_this_stack(pipeline: Template) -> None:
    called = [
        json.loads(_branch(pipeline)[name]["FunctionArn"])["Fn::GetAtt"][0]
        for name in ("Seal", "SmokeTest", "Teardown")
    ]
    functions = resources(pipeline, "AWS::Lambda::Function")
    assert [functions[name]["Properties"]["FunctionName"] for name in called] == [
        "shoal-mnist-dev-seal",
        "shoal-mnist-dev-smoke-test",
        "shoal-mnist-dev-teardown",
    ]


def test_the_pipeline_waits_for_the_policies_of_every_role_it_uses(pipeline: Template) -> None:
    (resource,) = resources(pipeline, "AWS::SageMaker::Pipeline").values()
    policies = set(resources(pipeline, "AWS::IAM::Policy"))
    assert len(policies) == 8
    assert policies <= set(resource["DependsOn"])


def test_images_are_found_in_branches_too(pipeline: Template) -> None:
    (image,) = images(definition(pipeline), "Model")
    assert "/pytorch-inference:" in image


@pytest.mark.parametrize("stack", ["pipeline", "data"])
def test_every_function_is_python_with_its_own_log_group(
    request: pytest.FixtureRequest, stack: str
) -> None:
    template = request.getfixturevalue(stack)
    functions = properties(template, "AWS::Lambda::Function")
    groups = [each["LogGroupName"] for each in properties(template, "AWS::Logs::LogGroup")]
    assert {entry["Runtime"] for entry in functions} == {"python3.12"}
    assert sorted(groups) == sorted(f"/aws/lambda/{entry['FunctionName']}" for entry in functions)


def test_a_message_is_hidden_while_it_is_worked_on_and_tried_for_as_long_as_endpoints_are_creating(
    pipeline: Template,
) -> None:
    """The function doubles the pause up to 15 minutes
    (packages/shoal/tests/functions/test_teardown.py)."""
    (queue,) = [
        entry for entry in properties(pipeline, "AWS::SQS::Queue") if "RedrivePolicy" in entry
    ]
    function = named(pipeline, "AWS::Lambda::Function", "shoal-mnist-dev-teardown")
    assert queue["VisibilityTimeout"] >= function["Timeout"]
    first_s = int(function["Environment"]["Variables"]["RETRY_AFTER_S"])
    tries = queue["RedrivePolicy"]["maxReceiveCount"]
    assert sum(min(first_s * 2**tried, 900) for tried in range(tries)) >= 2 * 60 * 60


def test_no_template_brings_a_function_of_the_cdk(
    network: Template, data: Template, pipeline: Template
) -> None:
    types = {
        resource["Type"]
        for template in (network, data, pipeline)
        for resource in template.to_json()["Resources"].values()
    }
    custom = {
        kind for kind in types if kind.startswith(("Custom::", "AWS::CloudFormation::Custom"))
    }
    assert custom == {"Custom::EmptyBucket", "Custom::EmptyModelPackageGroup"}


def _functions(template: Template) -> set[str]:
    functions = properties(template, "AWS::Lambda::Function")
    return {each["FunctionName"].removeprefix("shoal-mnist-") for each in functions}


def test_only_a_gate_against_the_registry_makes_the_function_that_compares(
    template_of: TemplateOf,
) -> None:
    compared = template_of("compared", "pipeline")
    assert "compared-compare" in _functions(compared)
    assert "Compare" in [step["Name"] for step in definition(compared)["Steps"]]
    assert "dev-compare" not in _functions(template_of("dev", "pipeline"))


def test_without_an_endpoint_there_is_no_function_and_no_role_for_one(
    template_of: TemplateOf,
) -> None:
    template = template_of("registered", "pipeline")
    assert _functions(template) == {"registered-seal", "registered-empty-registry"}
    roles = {each["RoleName"] for each in properties(template, "AWS::IAM::Role")}
    actors = ("training", "evaluation", "pipeline", "seal", "empty-registry")
    assert roles == {f"shoal-mnist-registered-us-east-1-{actor}" for actor in actors}
    allowed = json.dumps(statements(template, "shoal-mnist-registered-us-east-1-pipeline"))
    assert "sagemaker:CreateModelPackage" in allowed
    assert 'sagemaker:CreateModel"' not in allowed
    assert "sagemaker:CreateEndpoint" not in allowed


def test_a_job_gets_the_names_of_its_secrets_and_only_its_role_may_ask_for_them(
    template_of: TemplateOf,
) -> None:
    template = template_of("secret", "pipeline")
    assert definition(template)["Steps"][0]["Arguments"]["Environment"] == {
        "SHOAL_SECRET_HF_TOKEN": "team/hf",
        "SHOAL_SECRET_OTHER": "team/hf",
    }
    (asking,) = [
        policy["PolicyName"]
        for policy in properties(template, "AWS::IAM::Policy")
        if "secretsmanager" in str(policy)
    ]
    assert "Training" in asking
    for part in ("pipeline", "network"):
        assert "secretsmanager" not in str(template_of("dev", part).to_json()["Resources"])
