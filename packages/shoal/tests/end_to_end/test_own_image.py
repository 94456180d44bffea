"""An environment that builds its own image, as a user meets it: refused, built (which the emulator
cannot), deployed, gone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from shoal.launch.recipes import content_tag
from tests.end_to_end.conftest import Checkout, Finished
from tests.repository import ROOT

pytestmark = pytest.mark.nightly
PREFIX = "shoal-mnist-img"
ENVIRONMENT = """name: img
workload: mnist
account: "111122223333"
region: us-east-1
protect: false
training: {build_image: pytorch-smddp, framework_version: "2.3.0"}
endpoint: {build_image: none}
"""
PARAMETER = (
    f"/shoal/{PREFIX}/images/pytorch-smddp/{content_tag('pytorch-smddp', 'us-east-1', ROOT)}"
)
URI = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/{PREFIX}-pytorch-smddp@sha256:{'a' * 64}"


@dataclass(frozen=True)
class Moment:
    """What a command printed, and which of the environment's stacks there were then."""

    result: Finished
    stacks: set[str]


@dataclass(frozen=True)
class Story:
    """One call after the other, from an environment that needs an image to one that is gone."""

    too_early: Moment
    build: Moment
    definition: dict[str, Any]
    """The deployed pipeline's."""
    destruction: Moment
    parameters: list[str]
    """Names of parameters in SSM that were asked for after it, and not there."""
    repositories: list[str]
    """Names of what ECR has after it."""


@pytest.fixture(scope="module")
def story(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Story:
    own = checkout.with_environment(tmp_path_factory.mktemp("image"), "img", ENVIRONMENT)
    with own.emulator("img"):
        return tell(own)


def tell(own: Checkout) -> Story:
    """Type the commands of the story."""
    client = own.local_target.client

    def run(*command: str) -> Moment:
        result = own.run(*command, "img", "--local")
        stacks = client("cloudformation").describe_stacks()["Stacks"]
        return Moment(result, {each["StackName"] for each in stacks if PREFIX in each["StackName"]})

    too_early, build = run("deploy"), run("image", "build")
    # as the build's script does, see packages/shoal/tests/stacks/test_image.py
    client("ssm").put_parameter(Name=PARAMETER, Type="String", Value=URI)
    deployment = run("deploy")
    assert deployment.result.exit_code == 0, deployment.result.output
    described = client("sagemaker").describe_pipeline(PipelineName=PREFIX)
    return Story(
        too_early=too_early,
        build=build,
        definition=json.loads(described["PipelineDefinition"]),
        destruction=run("destroy"),
        parameters=client("ssm").get_parameters(Names=[PARAMETER])["InvalidParameters"],
        repositories=[
            each["repositoryName"] for each in client("ecr").describe_repositories()["repositories"]
        ],
    )


@pytest.mark.parametrize("command", ["too_early", "build"])
def test_the_build_deploys_what_it_needs_and_the_emulator_refuses_it_by_name(
    story: Story, command: str
) -> None:
    build: Moment = getattr(story, command)
    assert build.result.exit_code == 1
    assert (
        f"builds no container images (codebuild:StartBuild of {PREFIX}-image-build)"
        in build.result.output
    )
    assert f"{PREFIX}-pipeline" not in build.stacks
    assert f"{PREFIX}-image" in build.stacks


def test_what_a_build_published_is_what_the_pipeline_trains_with(story: Story) -> None:
    (train, *_) = story.definition["Steps"]
    assert train["Arguments"]["AlgorithmSpecification"]["TrainingImage"] == URI


def test_nothing_is_left_of_it(story: Story) -> None:
    gone = story.destruction
    assert gone.result.exit_code == 0, gone.result.output
    assert gone.stacks == set()
    assert story.parameters == [PARAMETER]
    assert [name for name in story.repositories if not name.startswith("cdk-")] == []
