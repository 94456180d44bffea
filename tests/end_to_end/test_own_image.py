"""An environment that builds its own image, as a user meets it: refused, built (which the emulator
cannot), deployed, gone.

The order of the tests is the order of the story.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pipelines.launch.recipes import content_tag
from shoal.verbs.target import Target
from tests.end_to_end.conftest import Checkout
from tests.repository import ROOT

PREFIX = "shoal-mnist-img"
ENVIRONMENT = """name: img
account: "111122223333"
region: us-east-1
protect: false
training: {build_image: pytorch-smddp, framework_version: "2.3.0"}
"""
PARAMETER = (
    f"/shoal/{PREFIX}/images/pytorch-smddp/{content_tag('pytorch-smddp', 'us-east-1', ROOT)}"
)
URI = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/{PREFIX}-pytorch-smddp@sha256:{'a' * 64}"


@dataclass(frozen=True)
class Place:
    """A checkout with one environment, and the emulator that it is for."""

    checkout: Checkout
    target: Target

    def client(self, service: str) -> Any:
        return self.target.client(service)

    def stacks(self) -> set[str]:
        return {
            stack["StackName"]
            for stack in self.client("cloudformation").describe_stacks()["Stacks"]
            if PREFIX in stack["StackName"]
        }


@pytest.fixture(scope="module")
def place(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    own = checkout.with_environment(tmp_path_factory.mktemp("image"), "img", ENVIRONMENT)
    started = own.run("local", "up", "img")
    assert started.exit_code == 0, started.output
    yield Place(own, own.local_target)
    own.run("local", "down")


def test_a_deployment_before_the_build_is_refused_before_anything_is_made(place: Place) -> None:
    result = place.checkout.run("deploy", "img", "--local")
    assert result.exit_code == 2
    assert "run `shoal image build img --local` first" in result.output
    assert place.stacks() == set()


def test_the_build_deploys_what_it_needs_and_the_emulator_refuses_it_by_name(place: Place) -> None:
    result = place.checkout.run("image", "build", "img", "--local")
    assert result.exit_code == 1
    assert (
        f"builds no container images (codebuild:StartBuild of {PREFIX}-image-build)"
        in result.output
    )
    assert f"{PREFIX}-pipeline" not in place.stacks()
    assert f"{PREFIX}-image" in place.stacks()


def test_what_a_build_published_is_what_the_pipeline_trains_with(place: Place) -> None:
    place.client("ssm").put_parameter(
        Name=PARAMETER, Type="String", Value=URI
    )  # as the build's script does, see tests/stacks/test_image.py
    result = place.checkout.run("deploy", "img", "--local")
    assert result.exit_code == 0, result.output
    described = place.client("sagemaker").describe_pipeline(PipelineName=PREFIX)
    (train, *_) = json.loads(described["PipelineDefinition"])["Steps"]
    assert train["Arguments"]["AlgorithmSpecification"]["TrainingImage"] == URI


def test_nothing_is_left_of_it(place: Place) -> None:
    result = place.checkout.run("destroy", "img", "--local")
    assert result.exit_code == 0, result.output
    assert place.client("ssm").get_parameters(Names=[PARAMETER])["InvalidParameters"] == [PARAMETER]
    assert (
        place.client("ecr")
        .describe_repositories()["repositories"][0]["repositoryName"]
        .startswith("cdk-")
    )
