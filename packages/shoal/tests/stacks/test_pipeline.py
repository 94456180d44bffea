"""The pipeline as CloudFormation gets it, and what stands around it to clean up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from shoal.constructs.pipeline.training_pipeline import images
from tests.stacks.reading import definition, named, only, properties, resources, role

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


def test_the_pipeline_runs_under_its_own_role(pipeline: Template) -> None:
    role_id, _ = role(pipeline, "shoal-mnist-dev-us-east-1-pipeline")
    assert only(pipeline, "AWS::SageMaker::Pipeline")["RoleArn"] == {"Fn::GetAtt": [role_id, "Arn"]}


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


def test_every_end_of_an_execution_of_this_pipeline_alone_reaches_the_queue(
    pipeline: Template,
) -> None:
    rule = only(pipeline, "AWS::Events::Rule")
    (target,) = rule["Targets"]
    assert rule["EventPattern"]["detail"] == {
        "pipelineArn": ["arn:aws:sagemaker:us-east-1:111122223333:pipeline/shoal-mnist-dev"],
        "currentPipelineExecutionStatus": [
            "Succeeded",
            "Failed",
            "Stopped",
            "CompletedWithFailures",
        ],
    }
    assert "Queue" in target["Arn"]["Fn::GetAtt"][0]


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


def test_the_function_reports_which_messages_it_could_not_finish(pipeline: Template) -> None:
    pipeline.has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {"BatchSize": 1, "FunctionResponseTypes": ["ReportBatchItemFailures"]},
    )


def test_queues_refuse_requests_without_tls(pipeline: Template) -> None:
    refusal = {
        "Effect": "Deny",
        "Action": "sqs:*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    pipeline.resource_count_is("AWS::SQS::QueuePolicy", 2)
    pipeline.all_resources_properties(
        "AWS::SQS::QueuePolicy",
        {"PolicyDocument": {"Statement": Match.array_with([Match.object_like(refusal)])}},
    )


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


def test_a_model_package_group_has_the_name_that_the_pipeline_registers_in(
    pipeline: Template,
) -> None:
    pipeline.has_resource_properties(
        "AWS::SageMaker::ModelPackageGroup", {"ModelPackageGroupName": "shoal-mnist-dev"}
    )


def test_the_registry_of_a_throw_away_environment_is_emptied_before_it_goes(
    pipeline: Template,
) -> None:
    group = only(pipeline, "AWS::SageMaker::ModelPackageGroup")
    assert {"Key": "shoal:empty-on-delete", "Value": "true"} in group["Tags"]
    (emptied,) = resources(pipeline, "Custom::EmptyModelPackageGroup").values()
    assert resources(pipeline, "AWS::SageMaker::ModelPackageGroup").keys() < {*emptied["DependsOn"]}
