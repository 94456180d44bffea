"""The image stack: what the repository refuses, what the build may touch, and that the build's
script does what it says.
"""

from __future__ import annotations

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
from aws_cdk.assertions import Template

from local_kit.control import Account, running, trust
from shoal.launch.recipes import content_tag
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from stacks.platform import EnvironmentStage
from tests.repository import ROOT
from tests.stacks.conftest import MakeStage
from tests.stacks.reading import definition, only, resources, statements

RECIPE = "pytorch-smddp"
ROLE = "shoal-mnist-dev-us-east-1-image-build"
BUILDER = f"arn:aws:iam::111122223333:role/{ROLE}"
REPOSITORY = "shoal-mnist-dev-pytorch-smddp"
URI = "111122223333.dkr.ecr.us-east-1.amazonaws.com/shoal-mnist-dev-pytorch-smddp"
# Stands for docker: writes down what it was asked, and a push puts an image into the registry, as a
# push does.
DOCKER = """#!/bin/bash
echo "docker $*" >> "$CALLS"
if [ "$1" = login ]; then cat > /dev/null; fi
if [ "$1" = push ]; then
  repository=${2#*/}
  manifest='{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": {"digest": "'$2'"}}'
  aws ecr put-image --repository-name "${repository%:*}" --image-tag "${2##*:}" --image-manifest "$manifest" > /dev/null
fi
"""  # noqa: E501


def _with_image(image: str, **changes: Any) -> Environment:
    dev = load_environment("dev", ROOT)
    training = dev.training.model_copy(update={"build_image": image})
    return dev.model_copy(update={"training": training, **changes})


@pytest.fixture(scope="module")
def stages(make_stage: MakeStage) -> dict[str, EnvironmentStage]:
    """Stages with an image: throw-away, protected, and with the recipe that extends no image of
    AWS's.
    """
    return {
        "thrown": make_stage(_with_image(RECIPE)),
        "kept": make_stage(_with_image(RECIPE, protect=True, name="prod")),
        "own": make_stage(_with_image("own-container", name="own")),
    }


@pytest.fixture(scope="module")
def image(stages: dict[str, EnvironmentStage]) -> Template:
    return _image_stack(stages["thrown"])


@pytest.fixture(scope="module")
def pipeline(stages: dict[str, EnvironmentStage]) -> Template:
    return Template.from_stack(stages["thrown"].workloads[0].pipeline)


def _image_stack(stage: EnvironmentStage) -> Template:
    assert stage.workloads[0].image is not None
    return Template.from_stack(stage.workloads[0].image)


def _script(template: Template) -> str:
    project = only(template, "AWS::CodeBuild::Project")
    (command,) = json.loads(project["Source"]["BuildSpec"])["phases"]["build"]["commands"]
    return str(command)


def test_tags_never_move_pushed_images_are_scanned_and_encrypted_with_a_key_that_rotates(
    image: Template,
) -> None:
    repository = only(image, "AWS::ECR::Repository")
    assert repository["ImageTagMutability"] == "IMMUTABLE"
    assert repository["ImageScanningConfiguration"] == {"ScanOnPush": True}
    assert repository["EncryptionConfiguration"]["EncryptionType"] == "KMS"
    assert only(image, "AWS::KMS::Key")["EnableKeyRotation"] is True


def test_the_key_is_used_by_the_registry_and_the_build_only(image: Template) -> None:
    entries = only(image, "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    used = {each["Sid"]: each.get("Condition") for each in entries}
    del used["AdministerKey"]
    assert used == {
        "LendKeyToRegistry": {"StringEquals": {"kms:ViaService": "ecr.us-east-1.amazonaws.com"}},
        "UseKeyInBuilds": {"ArnEquals": {"aws:PrincipalArn": BUILDER}},
    }


def test_old_images_and_failed_pushes_expire(image: Template) -> None:
    repository = only(image, "AWS::ECR::Repository")
    rules = json.loads(repository["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
    assert [(rule["selection"]["tagStatus"], rule["selection"]["countType"]) for rule in rules] == [
        ("untagged", "sinceImagePushed"),
        ("any", "imageCountMoreThan"),
    ]
    assert rules[-1]["selection"]["countNumber"] == 100  # docs/security.md says what expires then


def test_nobody_but_the_build_may_push(image: Template) -> None:
    (statement,) = only(image, "AWS::ECR::Repository")["RepositoryPolicyText"]["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", {"AWS": "*"})
    assert statement["Condition"] == {"ArnNotEquals": {"aws:PrincipalArn": BUILDER}}


def test_the_build_reaches_its_own_repository_one_image_one_parameter_and_one_object(
    image: Template,
) -> None:
    on = {sid: each["Resource"] for sid, each in statements(image, ROLE).items()}
    assert on["PushImage"] == f"arn:aws:ecr:us-east-1:111122223333:repository/{REPOSITORY}"
    assert on["PullBase"] == "arn:aws:ecr:us-east-1:763104351884:repository/pytorch-training"
    assert "*" not in on["PublishDigest"] + on["ReadRecipe"]


def test_a_build_takes_nothing_from_variables_that_its_caller_can_set(image: Template) -> None:
    project = only(image, "AWS::CodeBuild::Project")
    assert "EnvironmentVariables" not in project["Environment"]
    assert set(re.findall(r"\$\{?(\w+)", _script(image))) == {"1", "found", "registry"}


def test_a_recipe_that_extends_no_image_of_aws_logs_in_to_its_own_registry_only(
    stages: dict[str, EnvironmentStage],
) -> None:
    template = _image_stack(stages["own"])
    assert "for registry in 111122223333.dkr.ecr.us-east-1.amazonaws.com;" in _script(template)
    assert "PullBase" not in statements(template, "shoal-mnist-own-us-east-1-image-build")


@pytest.mark.parametrize(
    ("kind", "policy"), [("thrown", "Delete"), ("kept", "RetainExceptOnCreate")]
)
def test_images_stay_where_data_stays(
    stages: dict[str, EnvironmentStage], kind: str, policy: str
) -> None:
    (repository,) = resources(_image_stack(stages[kind]), "AWS::ECR::Repository").values()
    assert repository["DeletionPolicy"] == policy
    assert bool(repository["Properties"].get("EmptyOnDelete")) is (kind == "thrown")


def test_the_pipeline_trains_with_what_the_build_of_this_recipe_published(
    pipeline: Template,
) -> None:
    parameter = pipeline.to_json()["Parameters"]["TrainingImage"]
    train, *_ = definition(pipeline)["Steps"]
    assert parameter["Type"] == "AWS::SSM::Parameter::Value<String>"
    assert (
        parameter["Default"]
        == f"/shoal/shoal-mnist-dev/images/{RECIPE}/{content_tag(RECIPE, 'us-east-1', ROOT)}"
    )
    assert json.loads(train["Arguments"]["AlgorithmSpecification"]["TrainingImage"]) == {
        "Ref": "TrainingImage"
    }


def test_training_may_pull_its_own_image_and_evaluation_may_not(pipeline: Template) -> None:
    own = f"arn:aws:ecr:us-east-1:111122223333:repository/{REPOSITORY}"
    training, evaluation = (
        statements(pipeline, f"shoal-mnist-dev-us-east-1-{actor}")["PullImage"]["Resource"]
        for actor in ("training", "evaluation")
    )
    assert training == own
    assert own not in str(evaluation)


@dataclass
class Build:
    """Runs the template's script as CodeBuild does, with the role's credentials; the registry is
    the emulator's, docker is ours.
    """

    account: Account
    folder: Path
    script: str
    credentials: dict[str, str]

    @property
    def parameter(self) -> str:
        return Names(_with_image(RECIPE)).image_parameter(
            RECIPE, content_tag(RECIPE, "us-east-1", ROOT)
        )

    def run(self) -> subprocess.CompletedProcess[str]:
        docker = self.folder / "docker"
        docker.write_text(DOCKER)
        docker.chmod(0o755)
        environment = {
            "PATH": os.pathsep.join(
                [str(self.folder), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "CALLS": str(self.folder / "calls"),
            "HOME": str(self.folder),
            "AWS_ENDPOINT_URL": self.account.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            **self.credentials,
        }
        return subprocess.run(
            ["bash", "-c", self.script],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def client(self, service: str) -> Any:
        return self.account.client(service)


def _credentials_of_the_role(account: Account, image: Template) -> dict[str, str]:
    """Return temporary credentials of a role with the template's statements, except the one for the
    key, whose ARN is not known there.
    """
    allowed = [statement for sid, statement in statements(image, ROLE).items() if sid != "UseKey"]
    root = trust({"AWS": "arn:aws:iam::111122223333:root"})
    role = account.client("iam").create_role(RoleName=ROLE, AssumeRolePolicyDocument=root)["Role"]
    document = json.dumps({"Version": "2012-10-17", "Statement": allowed})
    account.client("iam").put_role_policy(
        RoleName=ROLE, PolicyName="build", PolicyDocument=document
    )
    credentials = account.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="build")[
        "Credentials"
    ]
    names = {
        "AccessKeyId": "AWS_ACCESS_KEY_ID",
        "SecretAccessKey": "AWS_SECRET_ACCESS_KEY",
        "SessionToken": "AWS_SESSION_TOKEN",
    }
    return {variable: credentials[key] for key, variable in names.items()}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, image: Template) -> Iterator[Build]:
    """A repository as the stack creates it, in which the script has run once. IAM was asked about
    every call.
    """
    with running(tmp_path_factory.mktemp("emulator"), "--enforce-iam") as account:
        for name in (REPOSITORY, f"{REPOSITORY}-other"):
            account.client("ecr").create_repository(
                repositoryName=name, imageTagMutability="IMMUTABLE"
            )
        build = Build(
            account,
            tmp_path_factory.mktemp("build"),
            _script(image),
            _credentials_of_the_role(account, image),
        )
        process = build.run()
        assert process.returncode == 0, process.stderr
        yield build


def test_the_build_publishes_the_digest_that_the_registry_gave(build: Build) -> None:
    (pushed,) = build.client("ecr").describe_images(repositoryName=REPOSITORY)["imageDetails"]
    published = build.client("ssm").get_parameter(Name=build.parameter)["Parameter"]["Value"]
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
    build.client("ssm").delete_parameter(Name=build.parameter)
    assert build.run().returncode == 0
    assert build.calls() == before
    assert (
        build.client("ssm")
        .get_parameter(Name=build.parameter)["Parameter"]["Value"]
        .startswith(f"{URI}@sha256:")
    )


def test_a_build_that_would_push_elsewhere_is_denied_and_publishes_nothing(
    build: Build, tmp_path: Path
) -> None:
    script = build.script.replace(build.parameter, "/never").replace(
        REPOSITORY, f"{REPOSITORY}-other"
    )
    other = replace(build, folder=tmp_path, script=script).run()
    assert other.returncode != 0
    assert "is not authorized to perform: ecr:BatchGetImage" in other.stderr
    assert build.client("ssm").get_parameters(Names=["/never"])["InvalidParameters"] == ["/never"]


def test_a_build_that_would_publish_elsewhere_is_denied(build: Build, tmp_path: Path) -> None:
    other = replace(
        build, folder=tmp_path, script=build.script.replace(build.parameter, "/shoal/other")
    ).run()
    assert other.returncode != 0
    assert "is not authorized to perform: ssm:PutParameter" in other.stderr
