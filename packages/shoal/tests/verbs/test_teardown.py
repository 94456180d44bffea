"""Destroying, against the emulator; packages/shoal/tests/end_to_end destroys whole environments."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from local_kit.control import allow, put_policies
from local_kit.tables import rows
from shoal.aws.events import Event, Note
from shoal.aws.execution import Pipeline
from shoal.aws.inventory import of_bootstrap
from shoal.aws.stacks import status_of_stack
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
from tests.cli.trained import IMAGE
from tests.settings.environment_file import RELEASE
from tests.verbs.conftest import ACCOUNT, REGION, delete_stack, make_pipeline, make_stack, refusing
from tests.verbs.test_execution import ended, gate

EXECUTION = "abcdefghijkl"


def environment(name: str = "dev", protect: bool = False) -> Environment:
    return Environment(
        name=name, workload=f"t{time.monotonic_ns() % 10**9}", account=ACCOUNT, protect=protect
    )


class Place:
    """An environment of its own, and short ways to give it what a teardown removes."""

    def __init__(self, target: Target) -> None:
        self.target, self.settings = target, environment()
        self.names, self.events = Names(self.settings), list[Event]()
        self.sagemaker = target.client("sagemaker")
        self.tags = {"shoal:pipeline": self.names.pipeline, "shoal:execution": EXECUTION}

    def teardown(self, target: Target | None = None, **sections: object) -> Teardown:
        """Return the environment's teardown, by another caller or with other sections."""
        names = Names(self.settings.model_copy(update=sections))
        return Teardown(target or self.target, names, self.events.append, poll_s=0.05)

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note)]

    def pipeline(self, step: dict[str, Any] | None = None) -> Pipeline:
        return make_pipeline(self.target, [step or gate(met=True)], name=self.names.pipeline)

    def model(self, end: str, tags: dict[str, str] | None = None, *, whole: bool = False) -> str:
        """Create a model without data, which CreateModel accepts, and return its name: the
        pipeline's, then `end`, which is the `whole` name or not. Nothing is started.
        """
        name = end if whole else f"{self.names.pipeline}-{end}"
        self.sagemaker.create_model(
            ModelName=name,
            ExecutionRoleArn=f"arn:aws:iam::{ACCOUNT}:role/{self.names.pipeline}-role",
            PrimaryContainer={"Image": IMAGE, "Environment": {}},
            Tags=[{"Key": key, "Value": value} for key, value in (tags or {}).items()],
        )
        return name

    def models(self) -> set[str]:
        """Return the names of the environment's models."""
        found = self.sagemaker.list_models(NameContains=self.names.prefix)["Models"]
        return {each["ModelName"] for each in found}

    def leftovers(self) -> dict[str, Callable[[], bool]]:
        """Create a model that only tags attribute, a configuration that only a step reports, and
        the model that it uses, named after the execution; returns whether each exists.
        """
        config = f"{self.names.pipeline}-c1"
        variant = {
            "VariantName": "AllTraffic",
            "ModelName": f"{self.names.pipeline}-{EXECUTION}",
            "InstanceType": "ml.m5.large",
            "InitialInstanceCount": 1,
        }
        arguments = {"EndpointConfigName": config, "ProductionVariants": [variant]}
        step = {"Name": "Configure", "Type": "EndpointConfig", "Arguments": arguments}
        pipeline = self.pipeline(step)
        role, allowed = f"{self.names.pipeline}-role", {"configure": allow("sagemaker:*")}
        put_policies(self.target.client("iam"), role, allowed)
        named, tagged = self.model(EXECUTION), self.model("x9", self.tags)
        assert ended(pipeline, pipeline.start({})).status == "Succeeded"
        return {
            # SageMaker completes the name that a step gives.
            "reported": lambda: bool(
                self.sagemaker.list_endpoint_configs(NameContains=config)["EndpointConfigs"]
            ),
            "named": lambda: named in self.models(),
            "tagged": lambda: tagged in self.models(),
        }


@pytest.fixture
def place(target: Target) -> Place:
    return Place(target)


@pytest.fixture
def leftovers(place: Place) -> Iterator[Callable[[], set[str]]]:
    """Return which leftovers are still there; a caller who may do everything deletes all."""
    made = place.leftovers()

    def kept() -> set[str]:
        return {what for what, exists in made.items() if exists()}

    assert kept() == {"reported", "named", "tagged"}
    yield kept
    place.teardown().remove_endpoints()
    assert kept() == set()


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
    ssm, version = target.client("ssm"), "/cdk-bootstrap/hnb659fds/version"
    stack = make_stack(target, "CDKToolkit")
    without = is_bootstrapped(target)
    ssm.put_parameter(Name=version, Value="30", Type="String")
    assert (without, is_bootstrapped(target)) == (False, True)
    ssm.delete_parameter(Name=version)
    delete_stack(target, stack)


def test_executions_that_have_ended_are_not_stopped(place: Place) -> None:
    pipeline = place.pipeline()
    assert ended(pipeline, pipeline.start({})).has_ended
    place.teardown().stop_executions()
    assert place.events == []


def test_executions_that_wait_for_an_answer_are_stopped_and_one_that_begins_meanwhile(
    place: Place,
) -> None:
    sqs = place.target.client("sqs")
    queue = sqs.create_queue(QueueName=place.settings.project)["QueueUrl"]
    step = {"Name": "Ask", "Type": "Callback", "SqsQueueUrl": queue, "Arguments": {}}
    pipeline = place.pipeline(step)
    arns = [pipeline.start({})]
    sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)

    def begin_another(_: Event) -> None:
        if len(arns) == 1:
            arns.append(pipeline.start({}))

    replace(place.teardown(), report=begin_another).stop_executions()
    assert [pipeline.look(arn).status for arn in arns] == ["Stopped", "Stopped"]


def test_log_groups_of_the_environment_are_removed_and_others_stay(place: Place) -> None:
    """An environment whose name goes on, with a stack of its own, is another."""
    logs = place.target.client("logs")
    neighbour = Names(place.settings.model_copy(update={"name": "dev-b"}))
    flow_logs = f"/shoal/{neighbour.prefix}/flow-logs"
    properties = {"LogGroupName": flow_logs}
    log = {"Type": "AWS::Logs::LogGroup", "Properties": properties}
    stack = make_stack(place.target, neighbour.stack("network"), {"Logs": log})
    mine = f"/aws/lambda/{place.names.function('teardown')}"
    others = [
        f"/aws/lambda/other-{place.settings.project}",
        f"/aws/sagemaker/Endpoints/{neighbour.pipeline}-abcdefabcdef",
    ]
    for group in (mine, *others):
        logs.create_log_group(logGroupName=group)
    place.teardown().remove_log_groups()
    left = {group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]}
    for group in others:
        logs.delete_log_group(logGroupName=group)
    delete_stack(place.target, stack)
    assert left & {mine, flow_logs, *others} == {flow_logs, *others}


def test_an_environment_without_a_pipeline_has_nothing_to_stop_or_to_remove(place: Place) -> None:
    place.teardown().stop_executions()
    place.teardown().remove_endpoints()
    assert place.events == []


def test_what_an_execution_left_is_deleted_when_the_function_cannot(place: Place) -> None:
    execution = place.pipeline().start({}).rpartition("/")[2]
    model = place.model(f"pipelines-{execution}-CreateModel-x", whole=True)
    place.teardown().remove_endpoints()
    assert place.notes == [f"deleting model {model}"]
    assert place.sagemaker.list_models(NameContains=model)["Models"] == []


def test_what_an_unknown_execution_left_is_found_by_tags(place: Place) -> None:
    """A tag whose value is no execution attributes nothing; neither does a name like one."""
    place.pipeline().start({})
    place.model(EXECUTION, place.tags)
    place.model("x9", place.tags)
    others = {
        place.model("2-x9", place.tags | {"shoal:pipeline": f"{place.names.pipeline}-2"}),
        place.model("own"),
        place.model("experimental"),
        place.model("own-0", place.tags | {"shoal:execution": ""}),
        place.model("own-1", place.tags | {"shoal:execution": "1"}),
        place.model("own-2", place.tags | {"shoal:execution": "zzzzzzzzzzzz-2"}),
        # As CloudFormation names what serves a release; the endpoint has the pipeline's name.
        place.model(f"{place.names.stack('serving')}-ServedModelB0AF3034-1ABCDEFGHIJK", whole=True),
    }
    place.teardown().remove_endpoints()
    left = place.models()
    for name in left:
        place.sagemaker.delete_model(ModelName=name)
    assert left == others


def test_what_another_deleter_takes_meanwhile_is_no_trouble(place: Place) -> None:
    place.pipeline()
    model, deleted = place.model(EXECUTION, place.tags), list[str]()

    def take(event: Event) -> None:
        if isinstance(event, Note) and event.text == f"deleting model {model}":
            place.sagemaker.delete_model(ModelName=model)
            deleted.append(model)

    Teardown(place.target, place.names, take, poll_s=0.05).remove_endpoints()
    assert deleted == [model]


@pytest.mark.parametrize(("operation", "subject", "kept"), rows(__file__, "cases.yaml", "searches"))
def test_an_error_of_one_search_is_reported_and_hides_nothing_that_the_others_find(
    place: Place, leftovers: Callable[[], set[str]], operation: str, subject: str, kept: list[str]
) -> None:
    with pytest.raises(LeftBehindError, match=f"{operation} was refused: AccessDenied"):
        place.teardown(refusing(place.target, operation)).remove_endpoints()
    assert len(place.notes) == len(set(place.notes))
    assert any(subject in text for text in place.notes)
    assert leftovers() == {*kept}


def test_running_executions_keep_nothing(place: Place, leftovers: Callable[[], set[str]]) -> None:
    down = place.teardown(refusing(place.target, "ListPipelineExecutions"))
    with pytest.raises(LeftBehindError, match="ListPipelineExecutions was refused"):
        down.destroy(partial(pytest.fail, "the roles went before what uses them"))
    assert leftovers() == {"reported"}


def test_tags_not_read_are_told(place: Place, leftovers: Callable[[], set[str]]) -> None:
    place.teardown(refusing(place.target, "ListTags")).remove_endpoints()
    assert leftovers() == {"tagged"}
    assert (
        f"the tags of model {place.names.pipeline}-x9 cannot be read (AccessDenied); only its name"
        " counts"
    ) in place.notes


def test_the_stack_of_a_release_that_is_pinned_no_more_is_deleted(place: Place) -> None:
    """That of a pinned release is left to the CDK's command."""
    stack = make_stack(place.target, place.names.stack("serving"))
    other = make_stack(place.target, f"{stack}-of-another")
    place.teardown(serving=Serving(), release=RELEASE).remove_unpinned_serving()
    status = partial(status_of_stack, place.target)
    assert (place.events, status(stack)) == ([], "CREATE_COMPLETE")
    place.teardown().remove_unpinned_serving()
    assert (status(stack), status(other)) == (None, "CREATE_COMPLETE")
    assert place.notes == [f"deleting stack {stack}"]
