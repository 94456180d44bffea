"""An environment's own image: is it built, and why did a build fail?"""

import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
import yaml
from botocore.exceptions import ClientError

from local_kit.tables import rows
from shoal.aws.events import Detail, Event
from shoal.aws.objects import remove_parameters
from shoal.aws.target import Target
from shoal.errors import ImageBuildError
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.verbs import image as images
from shoal.verbs.image import Image, follow, serve_from
from tests.repository import link_checkout
from tests.settings.environment_file import CONTENT

URI = "111122223333.dkr.ecr.us-east-1.amazonaws.com/shoal@sha256:00"


@pytest.fixture
def image(target: Target) -> Image:
    return Image(
        target,
        "training",
        "pytorch-smddp",
        f"/shoal/{uuid.uuid4().hex}/images/pytorch-smddp/0a",
        f"111122223333.dkr.ecr.us-east-1.amazonaws.com/shoal-{uuid.uuid4().hex}",
        "shoal-image-build",
    )


def publish(image: Image) -> None:
    image.target.client("ssm").put_parameter(Name=image.parameter, Type="String", Value=URI)


def test_an_image_that_was_published_is_there(image: Image) -> None:
    publish(image)
    assert image.uri() == URI


def test_what_runs_here_instead_of_an_image_is_registered_by_its_digest(image: Image) -> None:
    """A release pins that digest, as it pins a built image's."""
    ecr, repository = image.target.client("ecr"), image.repository_uri.partition("/")[2]
    ecr.create_repository(repositoryName=repository)
    uri = image.stand_in()
    digest = {"imageDigest": uri.partition("@")[2]}
    found = ecr.batch_get_image(repositoryName=repository, imageIds=[digest])
    assert (image.uri(), len(found["images"])) == (uri, 1)


def test_what_builds_published_is_removed_below_one_path_only(image: Image) -> None:
    publish(image)
    other = replace(image, parameter=f"/shoal/{uuid.uuid4().hex}/images/other/0a")
    publish(other)
    remove_parameters(image.target, image.parameter.rpartition("/")[0])
    assert (image.uri(), other.uri()) == (None, URI)


class Builds:
    """A CodeBuild, which shoal-local lacks: the build has ended at the second look."""

    def __init__(self, status: str, group: str) -> None:
        running = {"buildStatus": "IN_PROGRESS", "buildComplete": False, "logs": {}}
        ended = {
            "buildStatus": status,
            "buildComplete": True,
            "currentPhase": "COMPLETED",
            "logs": {"groupName": group, "streamName": "s"},
        }
        self._answers = [running, ended]

    def batch_get_builds(self, ids: list[str]) -> dict[str, Any]:
        assert ids == ["project:1"]
        return {"builds": [self._answers.pop(0)]}


@pytest.fixture
def log(target: Target) -> str:
    """Return a log group with one line in the stream `s`."""
    name = f"/aws/codebuild/{uuid.uuid4().hex}"
    logs = target.client("logs")
    logs.create_log_group(logGroupName=name)
    logs.create_log_stream(logGroupName=name, logStreamName="s")
    line = {"timestamp": int(time.time() * 1000), "message": "no space left"}
    logs.put_log_events(logGroupName=name, logStreamName="s", logEvents=[line])
    return name


def test_a_build_that_failed_carries_the_last_lines_of_its_log(target: Target, log: str) -> None:
    with pytest.raises(ImageBuildError, match=r"ended as FAILED(.|\n)*no space left"):
        follow(Builds("FAILED", log), target.client("logs"), "project:1", lambda _event: None, 0.0)


def test_a_build_that_succeeded_has_told_its_log(target: Target, log: str) -> None:
    events: list[Event] = []
    follow(Builds("SUCCEEDED", log), target.client("logs"), "project:1", events.append, 0.0)
    assert events == [Detail("no space left")]


class OneAtATime:
    """A CodeBuild that takes one build at a time, each of which ends when it is asked for."""

    class exceptions:  # noqa: N801 - as botocore's clients have it
        AccountLimitExceededException = ClientError

    def __init__(self, *ids: str) -> None:
        self.running, self.started = list(ids), list[str]()

    def client(self, _service: str) -> "OneAtATime":
        return self

    is_local, description = False, "an account"

    def start_build(self, projectName: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if self.running:
            code, message = "AccountLimitExceededException", "more than 1 builds"
            raise ClientError({"Error": {"Code": code, "Message": message}}, "StartBuild")
        self.started.append(f"{projectName}:1")
        self.running.append(f"{projectName}:1")
        return {"build": {"id": f"{projectName}:1"}}

    def list_builds_for_project(self, projectName: str, **_: str) -> dict[str, Any]:  # noqa: N803
        return {"ids": [each for each in self.running if each.startswith(projectName)]}

    def batch_get_builds(self, ids: list[str]) -> dict[str, Any]:
        return {"builds": [{"id": each, "buildComplete": False} for each in ids]}


def test_a_build_that_goes_on_since_an_earlier_try_is_waited_for(image: Image) -> None:
    builds = OneAtATime("shoal-image-build:0")
    assert replace(image, target=cast(Target, builds)).start() == "shoal-image-build:0"
    with pytest.raises(ClientError, match="more than 1 builds"):
        replace(image, target=cast(Target, builds), project="another").start()


def test_where_an_account_builds_one_image_at_a_time_the_next_one_waits(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = OneAtATime()
    two = [replace(image, target=cast(Target, builds), project=name) for name in ("a", "b")]
    monkeypatch.setattr(Image, "uri", lambda _image: None)
    monkeypatch.setattr(Image, "finish", lambda _image, build, *_: builds.running.remove(build))
    monkeypatch.setattr(images, "built_images", lambda *_: two)
    session, cdk = MagicMock(target=builds, each=[MagicMock()]), MagicMock()
    images.build_missing(session, cdk, MagicMock(), meanwhile=True)
    assert cdk.deploy.call_args.kwargs == {"stack": "{network,data}"}
    assert (builds.started, builds.running) == (["a:1", "b:1"], [])


@pytest.mark.parametrize(("image", "served"), rows(__file__, "cases.yaml", "served"))
def test_who_serves_an_image_of_an_environment_is_told(
    tmp_path: Path, image: str, served: bool
) -> None:
    root = link_checkout(tmp_path)
    pinned = {"mnist": CONTENT | {"image_uri": f"{image}:1"}}
    (root / "environments" / "staging.release.yaml").write_text(yaml.safe_dump(pinned))
    (root / "environments" / "broken.yaml").write_text("name: [")
    names = Names(load_environment("dev", root))
    assert serve_from(names, root) == (["staging"] if served else [])
