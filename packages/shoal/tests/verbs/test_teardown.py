"""Destroying, against the emulator; packages/shoal/tests/end_to_end destroys whole environments."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shoal.aws.events import Event, Note
from shoal.aws.execution import Pipeline
from shoal.aws.inventory import of_bootstrap
from shoal.aws.target import Target
from shoal.errors import LeftBehindError, ProtectedError
from shoal.settings.names import Names
from shoal.settings.sections.serving import Serving
from shoal.settings.settings import Environment
from shoal.verbs.destroy.teardown import (
    Teardown,
    is_bootstrapped,
    refuse_if_protected,
    remove_bootstrap,
)
from tests.settings.releases import RELEASE
from tests.verbs.conftest import ACCOUNT, REGION, make_pipeline
from tests.verbs.test_execution import ended, gate


def environment(name: str = "dev", protect: bool = False) -> Environment:
    return Environment(
        name=name, workload=f"t{time.monotonic_ns() % 10**9}", account=ACCOUNT, protect=protect
    )


def teardown(target: Target, settings: Environment, events: list[Event]) -> Teardown:
    return Teardown(target, Names(settings), events.append, poll_s=0.05)


def test_a_protected_environment_is_refused() -> None:
    with pytest.raises(ProtectedError, match=r"prod is protected .*set protect: false"):
        refuse_if_protected(environment("prod", protect=True))


def test_the_bootstrap_stack_of_an_aws_account_is_never_removed() -> None:
    with pytest.raises(ProtectedError, match="shared by all its CDK apps"):
        remove_bootstrap(Target(ACCOUNT, REGION))


def test_an_account_that_was_not_bootstrapped_has_nothing_to_remove(target: Target) -> None:
    remove_bootstrap(target)
    assert (is_bootstrapped(target), of_bootstrap(target)) == (False, ())


def test_a_bootstrap_that_could_not_be_created_is_none(target: Target) -> None:
    """CloudFormation keeps its stack, and deployments look for the version in vain."""
    cloudformation, ssm = target.client("cloudformation"), target.client("ssm")
    version = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "30"}}
    cloudformation.create_stack(
        StackName="CDKToolkit", TemplateBody=json.dumps({"Resources": {"Any": version}})
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="CDKToolkit", WaiterConfig={"Delay": 1}
    )
    without = is_bootstrapped(target)
    ssm.put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String")
    assert (without, is_bootstrapped(target)) == (False, True)
    ssm.delete_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    cloudformation.delete_stack(StackName="CDKToolkit")
    cloudformation.get_waiter("stack_delete_complete").wait(
        StackName="CDKToolkit", WaiterConfig={"Delay": 1}
    )


def test_executions_that_have_ended_are_not_stopped(target: Target) -> None:
    settings, events = environment(), list[Event]()
    pipeline = make_pipeline(target, [gate(met=True)], name=Names(settings).pipeline)
    arn = pipeline.start({})
    while not pipeline.look(arn).has_ended:
        time.sleep(0.05)
    teardown(target, settings, events).stop_executions()
    assert events == []


def test_an_execution_that_waits_for_an_answer_is_stopped_with_one(target: Target) -> None:
    settings, sqs = environment(), target.client("sqs")
    queue = sqs.create_queue(QueueName=settings.project)["QueueUrl"]
    ask = {"Name": "Ask", "Type": "Callback", "SqsQueueUrl": queue, "Arguments": {}}
    pipeline = make_pipeline(target, [ask], name=Names(settings).pipeline)
    arn = pipeline.start({})
    sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)
    teardown(target, settings, []).stop_executions()
    assert pipeline.look(arn).status == "Stopped"


def test_log_groups_of_the_environment_are_removed_and_others_stay(target: Target) -> None:
    settings, logs = environment(), target.client("logs")
    mine, other = (
        f"/aws/lambda/{Names(settings).function('teardown')}",
        f"/aws/lambda/other-{settings.project}",
    )
    for group in (mine, other):
        logs.create_log_group(logGroupName=group)
    teardown(target, settings, []).remove_log_groups()
    left = {group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]}
    logs.delete_log_group(logGroupName=other)
    assert (mine in left, other in left) == (False, True)


def test_log_groups_of_an_environment_whose_name_goes_on_stay(target: Target) -> None:
    settings, logs, cloudformation = (
        environment(),
        target.client("logs"),
        target.client("cloudformation"),
    )
    neighbour = Names(settings.model_copy(update={"name": "dev-b"}))
    group = f"/aws/sagemaker/Endpoints/{neighbour.pipeline}-abcdefabcdef"
    logs.create_log_group(logGroupName=group)
    template = {
        "Resources": {
            "Log": {
                "Type": "AWS::Logs::LogGroup",
                "Properties": {"LogGroupName": f"/shoal/{neighbour.prefix}/flow-logs"},
            }
        }
    }
    cloudformation.create_stack(
        StackName=neighbour.stack("network"), TemplateBody=json.dumps(template)
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=neighbour.stack("network"), WaiterConfig={"Delay": 1}
    )
    teardown(target, settings, []).remove_log_groups()
    left = {entry["logGroupName"] for entry in logs.describe_log_groups()["logGroups"]}
    logs.delete_log_group(logGroupName=group)
    cloudformation.delete_stack(StackName=neighbour.stack("network"))
    cloudformation.get_waiter("stack_delete_complete").wait(
        StackName=neighbour.stack("network"), WaiterConfig={"Delay": 1}
    )
    assert {group, f"/shoal/{neighbour.prefix}/flow-logs"} <= left


def test_an_environment_without_a_pipeline_has_nothing_to_stop_or_to_remove(target: Target) -> None:
    events: list[Event] = []
    down = teardown(target, environment(), events)
    down.stop_executions()
    down.remove_endpoints()
    assert events == []


def test_what_an_execution_left_is_deleted_when_the_function_cannot(target: Target) -> None:
    settings, events = environment(), list[Event]()
    pipeline = make_pipeline(target, [gate(met=True)], name=Names(settings).pipeline)
    model = f"pipelines-{pipeline.start({}).rpartition('/')[2]}-CreateModel-x"
    make_model(target, pipeline, model)
    teardown(target, settings, events).remove_endpoints()
    assert [event.text for event in events if isinstance(event, Note)] == [
        f"deleting model {model}"
    ]
    assert target.client("sagemaker").list_models(NameContains=model)["Models"] == []


def test_what_an_execution_left_of_which_there_is_no_record_is_found_by_its_tags(
    target: Target,
) -> None:
    settings, events = environment(), list[Event]()
    names = Names(settings)
    pipeline = make_pipeline(target, [gate(met=True)], name=names.pipeline)
    of_an_execution = {"shoal:pipeline": names.pipeline, "shoal:execution": "abcdefghijkl"}
    make_model(target, pipeline, f"{names.pipeline}-abcdefghijkl", of_an_execution)
    make_model(target, pipeline, f"{names.pipeline}-x9", of_an_execution)
    others = {
        f"{names.pipeline}-2-x9": of_an_execution | {"shoal:pipeline": f"{names.pipeline}-2"},
        f"{names.pipeline}-own": {},
        f"{names.pipeline}-experimental": {},
    }
    for name, tags in others.items():
        make_model(target, pipeline, name, tags)
    teardown(target, settings, events).remove_endpoints()
    left = {
        each["ModelName"]
        for each in target.client("sagemaker").list_models(NameContains=names.pipeline)["Models"]
    }
    for name in others:
        target.client("sagemaker").delete_model(ModelName=name)
    assert left == {*others}


def test_what_another_deleter_takes_meanwhile_is_no_trouble(target: Target) -> None:
    settings, deleted = environment(), list[str]()
    names = Names(settings)
    pipeline = make_pipeline(target, [gate(met=True)], name=names.pipeline)
    model = f"{names.pipeline}-abcdefghijkl"
    tags = {"shoal:pipeline": names.pipeline, "shoal:execution": "abcdefghijkl"}
    make_model(target, pipeline, model, tags)

    def take(event: Event) -> None:
        if isinstance(event, Note) and event.text == f"deleting model {model}":
            target.client("sagemaker").delete_model(ModelName=model)
            deleted.append(model)

    Teardown(target, names, take, poll_s=0.05).remove_endpoints()
    assert deleted == [model]


@pytest.mark.parametrize(
    ("operation", "subject", "kept"),
    [
        ("ListPipelineExecutions", "steps failed for executions", {"reported"}),
        ("ListPipelineExecutionSteps", "steps", {"reported"}),
        ("ListEndpoints", "names failed for endpoints", set()),
        ("ListModels", "names failed for models", {"tagged"}),
        ("DescribeScalableTargets", "scaling failed for scalable targets", set()),
    ],
)
def test_an_error_of_one_search_is_reported_and_hides_nothing_that_the_others_find(
    target: Target, operation: str, subject: str, kept: set[str]
) -> None:
    settings, events = environment(), list[Event]()
    leftovers = make_leftovers(target, settings)
    assert all(exists() for exists in leftovers.values())
    with pytest.raises(LeftBehindError, match=f"{operation} was refused: AccessDenied"):
        teardown(refusing(target, operation), settings, events).remove_endpoints()
    texts = [event.text for event in events if isinstance(event, Note)]
    assert len(texts) == len(set(texts))
    assert any(subject in text for text in texts)
    assert {what for what, exists in leftovers.items() if exists()} == kept
    teardown(target, settings, []).remove_endpoints()
    assert not any(exists() for exists in leftovers.values())


def test_executions_that_cannot_be_stopped_keep_nothing_that_they_left(target: Target) -> None:
    settings, events = environment(), list[Event]()
    leftovers = make_leftovers(target, settings)
    down = teardown(refusing(target, "ListPipelineExecutions"), settings, events)
    with pytest.raises(LeftBehindError, match="ListPipelineExecutions was refused"):
        down.destroy(Cdk())
    assert {what for what, exists in leftovers.items() if exists()} == {"reported"}
    teardown(target, settings, []).remove_endpoints()


class Cdk:
    """Destroys no stack: none was deployed."""

    def destroy(self, target: Target, environment: str) -> None:
        raise AssertionError(f"the roles of {environment} went before what uses them")


def test_what_may_not_be_described_stays_and_is_reported(target: Target) -> None:
    settings, events = environment(), list[Event]()
    leftovers = make_leftovers(target, settings)
    with pytest.raises(LeftBehindError, match="DescribeEndpointConfig was refused"):
        teardown(refusing(target, "DescribeEndpointConfig"), settings, events).remove_endpoints()
    assert {what for what, exists in leftovers.items() if exists()} == {"reported"}
    teardown(target, settings, []).remove_endpoints()


def test_tags_that_may_not_be_read_are_reported_and_what_names_and_steps_tell_is_deleted(
    target: Target,
) -> None:
    settings, events = environment(), list[Event]()
    leftovers = make_leftovers(target, settings)
    teardown(refusing(target, "ListTags"), settings, events).remove_endpoints()
    assert {what for what, exists in leftovers.items() if exists()} == {"tagged"}
    texts = [event.text for event in events if isinstance(event, Note)]
    assert (
        f"the tags of model {Names(settings).pipeline}-x9 cannot be read (AccessDenied); only its"
        " name counts"
    ) in texts
    teardown(target, settings, []).remove_endpoints()


@pytest.mark.parametrize("value", ["", "1", "zzzzzzzzzzzz-2"])
def test_a_tag_whose_value_is_no_execution_attributes_nothing(target: Target, value: str) -> None:
    settings, names = environment(), Names(environment())
    pipeline = make_pipeline(target, [gate(met=True)], name=names.pipeline)
    model = f"{names.pipeline}-own"
    make_model(target, pipeline, model, tags_of(names) | {"shoal:execution": value})
    teardown(target, settings, []).remove_endpoints()
    assert exists(target, model)
    target.client("sagemaker").delete_model(ModelName=model)


def tags_of(names: Names) -> dict[str, str]:
    return {"shoal:pipeline": names.pipeline, "shoal:execution": "abcdefghijkl"}


def refusing(target: Target, operation: str) -> Target:
    """Return the same account for a caller that may not do `operation`."""
    limited = replace(target)

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, operation)

    for service in ("sagemaker", "application-autoscaling"):
        limited.client(service).meta.events.register(f"before-call.{service}.{operation}", refuse)
    return limited


def make_leftovers(target: Target, settings: Environment) -> dict[str, Callable[[], bool]]:
    """Create a model that only tags attribute, a configuration that only a step reports, and the
    model that it uses, named after the execution; returns whether each exists.
    """
    names, sagemaker = Names(settings), target.client("sagemaker")
    config, model, nameless = (f"{names.pipeline}-{end}" for end in ("c1", "abcdefghijkl", "x9"))
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": model,
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": 1,
    }
    arguments = {"EndpointConfigName": config, "ProductionVariants": [variant]}
    step = {"Name": "Configure", "Type": "EndpointConfig", "Arguments": arguments}
    pipeline = make_pipeline(target, [step], name=names.pipeline)
    allowed = {"Effect": "Allow", "Action": "sagemaker:*", "Resource": "*"}
    target.client("iam").put_role_policy(
        RoleName=f"{names.pipeline}-role",
        PolicyName="configure",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}),
    )
    make_model(target, pipeline, model)
    make_model(target, pipeline, nameless, tags_of(names))
    assert ended(pipeline, pipeline.start({})).status == "Succeeded"
    return {
        # SageMaker completes the name that a step gives.
        "reported": lambda: bool(
            sagemaker.list_endpoint_configs(NameContains=config)["EndpointConfigs"]
        ),
        "named": partial(exists, target, model),
        "tagged": partial(exists, target, nameless),
    }


def exists(target: Target, model: str) -> bool:
    models = target.client("sagemaker").list_models(NameContains=model)["Models"]
    return [each["ModelName"] for each in models] == [model]


def make_model(
    target: Target, pipeline: Pipeline, name: str, tags: dict[str, str] | None = None
) -> None:
    """Create a model without data, which CreateModel accepts; nothing is started."""
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"  # noqa: E501
    container: dict[str, Any] = {"Image": image, "Environment": {}}
    role = f"arn:aws:iam::{ACCOUNT}:role/{pipeline.name}-role"
    listed = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
    target.client("sagemaker").create_model(
        ModelName=name, ExecutionRoleArn=role, PrimaryContainer=container, Tags=listed
    )


def test_the_stack_of_a_release_that_is_pinned_no_more_is_deleted(target: Target) -> None:
    settings, events = environment(), list[Event]()
    cloudformation, stack = target.client("cloudformation"), Names(settings).stack("serving")
    parameter = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}
    for name in (stack, f"{stack}-of-another"):
        cloudformation.create_stack(
            StackName=name, TemplateBody=json.dumps({"Resources": {"One": parameter}})
        )
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=name, WaiterConfig={"Delay": 1}
        )
    teardown(target, settings, events).remove_unpinned_serving()
    left = [
        each["StackName"]
        for each in cloudformation.describe_stacks()["Stacks"]
        if each["StackStatus"] != "DELETE_COMPLETE"
    ]
    assert (stack in left, f"{stack}-of-another" in left) == (False, True)
    assert [event.text for event in events if isinstance(event, Note)] == [
        f"deleting stack {stack}"
    ]


def test_the_stack_of_a_pinned_release_is_left_to_the_cli(target: Target) -> None:
    settings, events = (
        environment().model_copy(update={"serving": Serving(), "release": RELEASE}),
        list[Event](),
    )
    cloudformation, stack = target.client("cloudformation"), Names(settings).stack("serving")
    parameter = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}
    cloudformation.create_stack(
        StackName=stack, TemplateBody=json.dumps({"Resources": {"One": parameter}})
    )
    teardown(target, settings, events).remove_unpinned_serving()
    assert events == []
    assert cloudformation.describe_stacks(StackName=stack)["Stacks"]


def test_what_serves_a_release_is_nobodys_left_over(target: Target) -> None:
    """Names as CloudFormation gives them; the endpoint has the pipeline's own."""
    settings = environment()
    pipeline = make_pipeline(target, [gate(met=True)], name=Names(settings).pipeline)
    pipeline.start({})
    model = f"{Names(settings).stack('serving')}-ServedModelB0AF3034-1ABCDEFGHIJK"
    make_model(target, pipeline, model)
    events: list[Event] = []
    teardown(target, settings, events).remove_endpoints()
    assert events == []
    assert len(target.client("sagemaker").list_models(NameContains=model)["Models"]) == 1
    target.client("sagemaker").delete_model(ModelName=model)
