"""The image stack: what the repository refuses, what the build may touch, and that the build's
script does what it says.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from local_kit.commands import ended
from local_kit.control import Account, make_role, running
from shoal.constructs.images import BUILD_OPTION, index_login
from shoal.launch.recipes import content_tag
from shoal.settings.organisation import PackageIndex
from tests.functions.invocation import session_of
from tests.repository import ROOT
from tests.stacks.conftest import TemplateOf
from tests.stacks.reading import Template, definition, only, statements

RECIPE = "pytorch-smddp"
ROLE = "shoal-mnist-built-us-east-1-image-build"
REPOSITORY = "shoal-mnist-built-pytorch-smddp"
URI = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/{REPOSITORY}"
TAG = content_tag(RECIPE, "us-east-1", ROOT)
PARAMETER = f"/shoal/shoal-mnist-built/images/{RECIPE}/{TAG}"
# Stands for docker: writes down what it was asked, and a push puts an image into the registry, as a
# push does.
DOCKER = """#!/bin/bash
echo "docker $*" >> "$CALLS"
if [ "$1" = login ]; then cat > /dev/null; fi
for each in "$@"; do if [ "${each%%,*}" = id=pip ]; then cat "${each#*src=}" Dockerfile >> "$CALLS"; fi; done
if [ "$1" = push ]; then
  repository=${2#*/}
  manifest='{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": {"digest": "'$2'"}}'
  aws ecr put-image --repository-name "${repository%:*}" --image-tag "${2##*:}" --image-manifest "$manifest" > /dev/null
fi
"""  # noqa: E501


@pytest.fixture(scope="module")
def image(template_of: TemplateOf) -> Template:
    return template_of("built", "image")


def _script(template: Template) -> str:
    project = only(template, "AWS::CodeBuild::Project")
    (command,) = json.loads(project["Source"]["BuildSpec"])["phases"]["build"]["commands"]
    return str(command)


def test_old_images_and_failed_pushes_expire(image: Template) -> None:
    repository = only(image, "AWS::ECR::Repository")
    rules = json.loads(repository["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
    assert [(rule["selection"]["tagStatus"], rule["selection"]["countType"]) for rule in rules] == [
        ("untagged", "sinceImagePushed"),
        ("any", "imageCountMoreThan"),
    ]
    assert rules[-1]["selection"]["countNumber"] == 100  # docs/security.md says what expires then


def test_the_build_may_write_one_parameter_and_read_one_object(image: Template) -> None:
    allowed = statements(image, ROLE)
    assert "*" not in allowed["PublishDigest"]["Resource"] + allowed["ReadRecipe"]["Resource"]


def test_a_build_takes_nothing_from_variables_that_its_caller_can_set(image: Template) -> None:
    assert set(re.findall(r"\$\{?(\w+)", _script(image))) == {"1", "found", "registry"}


def test_the_pipeline_trains_with_what_the_build_of_this_recipe_published(
    template_of: TemplateOf,
) -> None:
    pipeline = template_of("built", "pipeline")
    name = f"TrainingImage{PARAMETER.rpartition('/')[2]}"  # `cdk deploy` keeps old values by name
    parameter = pipeline["Parameters"][name]
    train, *_ = definition(pipeline)["Steps"]
    assert parameter["Type"] == "AWS::SSM::Parameter::Value<String>"
    assert parameter["Default"] == PARAMETER
    assert json.loads(train["Arguments"]["AlgorithmSpecification"]["TrainingImage"]) == {
        "Ref": name
    }


@dataclass
class Build:
    """Runs the template's script as CodeBuild does, with the role's credentials; the registry is
    the emulator's, docker is ours.
    """

    account: Account
    folder: Path
    script: str
    credentials: dict[str, str]

    def run(self) -> subprocess.CompletedProcess[str]:
        docker = self.folder / "docker"
        docker.write_text(DOCKER)
        docker.chmod(0o755)
        path = [str(self.folder), str(Path(sys.executable).parent), os.environ["PATH"]]
        environment = {
            "PATH": os.pathsep.join(path),
            "CALLS": str(self.folder / "calls"),
            "HOME": str(self.folder),
            "AWS_ENDPOINT_URL": self.account.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            **self.credentials,
        }
        command = ("bash", "-c", self.script)
        return ended(*command, cwd=self.folder, env=environment, timeout=120)

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def client(self, service: str) -> Any:
        return self.account.client(service)


def _credentials_of_the_role(account: Account, image: Template) -> dict[str, str]:
    """Return temporary credentials of a role with the template's statements, except the one for the
    key, whose ARN is not known there.
    """
    allowed = [statement for sid, statement in statements(image, ROLE).items() if sid != "UseKey"]
    root = {"AWS": "arn:aws:iam::111122223333:root"}
    build = {"Version": "2012-10-17", "Statement": allowed}
    arn = make_role(account.client("iam"), ROLE, root, {"build": build})
    return session_of(account.client("sts"), arn)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, image: Template) -> Iterator[Build]:
    """A repository as the stack creates it, in which the script has run once. IAM was asked about
    every call.
    """
    with running(tmp_path_factory.mktemp("emulator"), "--enforce-iam") as account:
        ecr, folder = account.client("ecr"), tmp_path_factory.mktemp("build")
        for name in (REPOSITORY, f"{REPOSITORY}-other"):
            ecr.create_repository(repositoryName=name, imageTagMutability="IMMUTABLE")
        credentials = _credentials_of_the_role(account, image)
        build = Build(account, folder, _script(image), credentials)
        process = build.run()
        assert process.returncode == 0, process.stderr
        yield build


def test_the_build_publishes_the_digest_that_the_registry_gave(build: Build) -> None:
    (pushed,) = build.client("ecr").describe_images(repositoryName=REPOSITORY)["imageDetails"]
    published = build.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    assert published == f"{URI}@{pushed['imageDigest']}"


def test_the_build_logs_in_to_both_registries_before_it_builds_with_the_tables_arguments(
    build: Build,
) -> None:
    logins, docker_build = build.calls()[:2], build.calls()[2]
    assert [call.rpartition(" ")[2] for call in logins] == [
        "111122223333.dkr.ecr.us-east-1.amazonaws.com",
        "763104351884.dkr.ecr.us-east-1.amazonaws.com",
    ]
    assert "--build-arg TAG=2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker" in docker_build


def test_a_second_build_of_the_same_recipe_pushes_nothing_and_publishes_again(build: Build) -> None:
    before = build.calls()
    build.client("ssm").delete_parameter(Name=PARAMETER)
    assert build.run().returncode == 0
    assert build.calls() == before
    published = build.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"]
    assert published.startswith(f"{URI}@sha256:")


@pytest.mark.parametrize(
    ("elsewhere", "denied"),
    [
        ({PARAMETER: "/never", REPOSITORY: f"{REPOSITORY}-other"}, "ecr:BatchGetImage"),
        ({PARAMETER: "/shoal/other"}, "ssm:PutParameter"),
    ],
)
def test_a_build_that_would_push_or_publish_elsewhere_is_denied(
    build: Build, tmp_path: Path, elsewhere: dict[str, str], denied: str
) -> None:
    script = build.script
    for own, other in elsewhere.items():
        script = script.replace(own, other)
    process, name = replace(build, folder=tmp_path, script=script).run(), elsewhere[PARAMETER]
    assert process.returncode != 0
    assert f"is not authorized to perform: {denied}" in process.stderr
    assert build.client("ssm").get_parameters(Names=[name])["InvalidParameters"] == [name]


@pytest.mark.parametrize(
    ("text", "login"),
    [
        ('{"username": "me", "password": "p@ss/w%rd"}', "me:p%40ss%2Fw%25rd"),
        ("tok", "__token__:tok"),
    ],
)
def test_pip_in_a_build_asks_the_organisations_index_by_a_secret_of_buildkits(
    build: Build, tmp_path: Path, text: str, login: str
) -> None:
    secrets, name = build.client("secretsmanager"), f"team/{len(text)}"
    secrets.create_secret(Name=name, SecretString=text)
    index = PackageIndex(url="https://nexus.example.com/simple/", secret=name)
    start = "  DOCKER_BUILDKIT=1 docker build"
    assert start in build.script
    script = build.script.replace(start, f"  {index_login(index)}{start.lstrip()} {BUILD_OPTION}")
    (tmp_path / "Dockerfile").write_text("FROM x\n run pip install \\\n  einops\n")
    keys = {"AWS_ACCESS_KEY_ID": build.account.key, "AWS_SECRET_ACCESS_KEY": build.account.secret}
    build.client("ecr").batch_delete_image(repositoryName=REPOSITORY, imageIds=[{"imageTag": TAG}])
    process = replace(build, folder=tmp_path, script=script, credentials=keys).run()
    assert process.returncode == 0, process.stderr
    called = (tmp_path / "calls").read_text()
    assert f"index-url = https://{login}@nexus.example.com/simple/\n" in called
    mount = "--mount=type=secret,id=pip,target=/etc/pip.conf,required=true,mode=0444"
    assert f"RUN {mount} pip in" in called
    commands = [each for each in called.splitlines() if each.startswith("docker ")]
    assert not [each for each in (*commands, process.stdout, process.stderr) if login in each]
