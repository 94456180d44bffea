"""A training job writes whatever it may, at every later moment, and nobody is ever served anything
but what was evaluated; whoever serves has its own copy, and needs nobody.

Live: dev, which trains, and staging, which serves, in two accounts, policies enforced.
"""

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import make_role, register_version
from local_kit.hosted import CODE, ENVIRONMENT
from local_kit.sagemaker_account import INFERENCE_IMAGE
from shoal.aws.model_archive import content_sha256
from shoal.constructs.app import feature_flags
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.testing import emulator
from tests.cli.trained import archive
from tests.functions.invocation import FUNCTIONS, Outcome, invoke, session_of
from tests.identity.templates import ARNS, Templates, synthesised
from tests.repository import ROOT, zipped_modules
from tests.settings.environment_file import CONTENT
from tests.stacks.test_consumer_access import ARTIFACTS, DEV, NAMES, STAGING, Accounts

KEY = ARNS["AWS::KMS::Key"].format("StorageKeyBAA9457B")
OUTPUT = "training/abcdefghijkl/pipelines-abcdefghijkl-Train-x/output/model.tar.gz"
FORGED = archive({"model.txt": b"666", "code/inference.py": CODE})
OWN = Names(STAGING).bucket("artifacts")
SERVING = Names(STAGING).stack("serving")
JOBS = ("training", "evaluation", "endpoint", "pipeline", "smoke-test", "teardown")
_SERVED = ("Archive", "Role", "Served", "ServingEndpoint")
"""Beginnings of the logical ids of what serves, without alarms, scaling and proof."""


def model(factor: int) -> bytes:
    """Return an archive whose model multiplies by `factor`."""
    return archive({"model.txt": str(factor).encode(), "code/inference.py": CODE})


def sealed(content: bytes) -> str:
    return f"models/{hashlib.sha256(content).hexdigest()}/model.tar.gz"


def allows(call: Any, **arguments: Any) -> bool:
    """Return whether the call is not refused; errors other than refusals are raised."""
    try:
        call(**arguments)
    except ClientError as error:
        if "AccessDenied" not in error.response["Error"]["Code"]:
            raise
        return False
    return True


@dataclass(frozen=True)
class World:
    accounts: Accounts
    folder: Path
    staging_key: str

    def s3(self, actor: str) -> Any:
        return self.accounts.role(DEV.account, NAMES.role(actor), "s3")

    def train(self, content: bytes) -> None:
        self.s3("training").put_object(Bucket=ARTIFACTS, Key=OUTPUT, Body=content)

    def existing(self, bucket: str = ARTIFACTS) -> set[str]:
        root = self.accounts.root(DEV.account if bucket == ARTIFACTS else STAGING.account, "s3")
        return {each["Key"] for each in root.list_objects_v2(Bucket=bucket).get("Contents", [])}

    def forge(self, actor: str = "training") -> set[str]:
        """Let the role write over everything that exists in both stores, and where models will
        lie; return what it could.
        """
        s3 = self.s3(actor)
        targets = {(bucket, key) for bucket in (ARTIFACTS, OWN) for key in self.existing(bucket)}
        targets |= {(bucket, "models/more/model.tar.gz") for bucket in (ARTIFACTS, OWN)}
        return {
            key
            for bucket, key in targets
            if allows(s3.put_object, Bucket=bucket, Key=key, Body=FORGED)
        }

    def seal(self, content: bytes) -> Outcome:
        """Run the step's function with the role that its stack gives it."""
        sts = self.accounts.root(DEV.account, "sts")
        credentials = session_of(sts, NAMES.role_arn("seal"))
        event = {
            "execution_id": "abcdefghijkl",
            "model_data_url": f"s3://{ARTIFACTS}/{OUTPUT}",
            "archive_sha256": hashlib.sha256(content).hexdigest(),
            "content_sha256": content_sha256(io.BytesIO(content)),
        }
        endpoint = self.accounts.local.endpoint
        return invoke(
            "seal", event, endpoint_url=endpoint, environment=credentials, module="sealer"
        )

    def release(self, content: bytes) -> Release:
        """Train, seal and register an archive; return its pin."""
        self.train(content)
        url = self.seal(content).result["model_data_url"]
        container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": ENVIRONMENT}
        sagemaker, group = self.accounts.root(DEV.account, "sagemaker"), NAMES.model_package_group
        arn = register_version(sagemaker, group, container, ModelApprovalStatus="Approved")
        changes = {
            "model_package_arn": arn,
            "model_package_version": int(arn.rpartition("/")[2]),
            "image_uri": INFERENCE_IMAGE,
            "environment": ENVIRONMENT,
            "model_data_url": url,
            "model_data_sha256": hashlib.sha256(content).hexdigest(),
        }
        return Release(**CONTENT | changes)

    def deploy(self, release: Release) -> tuple[str, list[str]]:
        """Deploy what serves the release in staging; return the stack's status and why resources
        failed.
        """
        return self.accounts.deploy(STAGING.account, SERVING, self._template(release))

    def destroy(self) -> None:
        """Delete what serves."""
        cloudformation = self.accounts.root(STAGING.account, "cloudformation")
        cloudformation.delete_stack(StackName=SERVING)
        cloudformation.get_waiter("stack_delete_complete").wait(
            StackName=SERVING, WaiterConfig={"Delay": 1}
        )

    def answer(self) -> float:
        """Return what staging's endpoint makes of 2."""
        runtime = self.accounts.root(STAGING.account, "sagemaker-runtime")
        answer = runtime.invoke_endpoint(
            EndpointName=Names(STAGING).serving_endpoint,
            Body=b'{"x": 2}',
            ContentType="application/json",
        )
        return float(json.loads(answer["Body"].read())["y"])

    def _template(self, release: Release) -> dict[str, Any]:
        """Return the part of staging's serving stack that needs no other stack but the data's."""
        changes = {"release": release, "serving": STAGING.serving}
        pinning = STAGING.model_copy(update=changes)
        templates = synthesised({"staging": pinning}, self.folder / release.version)["staging"]
        resources = {
            key: each
            for key, each in templates.stacks[SERVING]["Resources"].items()
            if key.startswith(_SERVED)
        }
        for each in resources.values():
            properties = each.get("Properties", {})
            each["DependsOn"] = [key for key in each.get("DependsOn", []) if key in resources]
            if each["Type"] == "AWS::SageMaker::Model":
                del properties["VpcConfig"]
            if each["Type"] == "AWS::SageMaker::Endpoint":
                del properties["DeploymentConfig"]
            if each["Type"] == "AWS::Lambda::Function":
                self._upload(properties["Code"])
        text = json.dumps({"Resources": resources})
        return dict(json.loads(text, object_hook=self._without_imports))

    def _without_imports(self, value: dict[str, Any]) -> Any:
        return self.staging_key if "Fn::ImportValue" in value else value

    def _upload(self, code: dict[str, str]) -> None:
        s3 = self.accounts.root(STAGING.account, "s3")
        bucket = f"cdk-hnb659fds-assets-{STAGING.account}-{STAGING.region}"
        code["S3Bucket"] = bucket
        if bucket not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key=code["S3Key"], Body=zipped_modules(FUNCTIONS / "seal"))

    def make_roles(self, environment: Any, key: str, templates: Templates) -> None:
        """Create the environment's roles with the policies of its stacks, for the key that
        exists; everybody in the account may assume them.
        """
        iam, names = self.accounts.root(environment.account, "iam"), Names(environment)
        policies = templates.identity_policies()
        for actor in (*JOBS, "seal"):
            name, principal = names.role(actor), {"AWS": f"arn:aws:iam::{environment.account}:root"}
            own = json.loads(json.dumps(policies[name]).replace(KEY, key))
            make_role(iam, name, principal, own)


HONEST = model(3)
SEALED = sealed(HONEST)


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, templates: dict[str, Templates]
) -> Iterator[World]:
    build(runtimes()["pytorch"], None, print)
    folder, context = tmp_path_factory.mktemp("sealed"), feature_flags(ROOT)
    numbers = ("--account", DEV.account, "--account", STAGING.account)
    with emulator(folder / "state", *numbers, "--region", DEV.region, "--enforce-iam") as running:
        accounts = Accounts(running.account)
        keys = [accounts.deploy_data(each, folder / each.name, context) for each in (DEV, STAGING)]
        world = World(accounts, folder, keys[1])
        staging = synthesised({"staging": STAGING}, folder / "roles")["staging"]
        world.make_roles(DEV, keys[0], templates["dev"])
        world.make_roles(STAGING, keys[1], staging)
        for account in (DEV.account, STAGING.account):
            accounts.make_role(account, "anything")
        yield world


@dataclass(frozen=True)
class Served:
    """What staging serves before and after each test, and what a training job could overwrite on
    the way there.
    """

    deployed: tuple[str, list[str]]
    """Status of the stack, and why resources failed."""
    after_the_seal: set[str]
    after_the_deployment: set[str]


@pytest.fixture(scope="module")
def served(world: World) -> Served:
    release = world.release(HONEST)
    forged = world.forge()
    return Served(world.deploy(release), forged, world.forge())


def test_what_a_job_writes_between_evaluation_and_seal_fails_its_own_execution(
    world: World,
) -> None:
    content = model(9)
    world.train(content)
    assert OUTPUT in world.forge()
    assert "written again after it was evaluated" in world.seal(content).error
    assert sealed(content) not in world.existing()


def test_what_a_job_writes_after_the_seal_is_never_served(world: World, served: Served) -> None:
    assert served == Served(("CREATE_COMPLETE", []), {OUTPUT}, {OUTPUT})
    assert world.seal(HONEST).result["status"] == "Sealed"
    assert world.answer() == 6.0
    own = world.accounts.root(STAGING.account, "s3").get_object(Bucket=OWN, Key=SEALED)
    assert hashlib.sha256(own["Body"].read()).hexdigest() in SEALED


@pytest.mark.usefixtures("served")
def test_another_archive_under_the_pinned_url_is_refused_and_the_old_release_answers(
    world: World,
) -> None:
    content = model(4)
    release = world.release(content)
    # Somebody got around every policy of dev's.
    dev = world.accounts.root(DEV.account, "s3")
    dev.put_object(Bucket=ARTIFACTS, Key=sealed(content), Body=FORGED)
    status, reasons = world.deploy(release)
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    forged = hashlib.sha256(FORGED).hexdigest()
    assert f"is {forged}, evaluated was {release.model_data_sha256}" in reasons[0]
    assert (world.answer(), sealed(content) in world.existing(OWN)) == (6.0, False)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("environment", [DEV, STAGING], ids=lambda each: each.name)
@pytest.mark.parametrize("actor", JOBS)
def test_no_job_writes_or_deletes_in_either_store(
    world: World, actor: str, environment: object
) -> None:
    account, role = (
        (DEV.account, NAMES) if environment is DEV else (STAGING.account, Names(STAGING))
    )
    s3 = world.accounts.role(account, role.role(actor), "s3")
    for bucket in (ARTIFACTS, OWN):
        assert not allows(s3.put_object, Bucket=bucket, Key=SEALED, Body=FORGED)
        assert not allows(s3.delete_object, Bucket=bucket, Key=SEALED)
        version = _version(world, bucket)
        assert not allows(s3.delete_object, Bucket=bucket, Key=SEALED, VersionId=version)


@pytest.mark.usefixtures("served")
def test_a_role_that_its_account_allows_everything_cannot_either(world: World) -> None:
    """The bucket's Deny does not depend on what identity policies forget."""
    for account, bucket in ((DEV.account, ARTIFACTS), (STAGING.account, OWN)):
        s3, version = world.accounts.role(account, "anything", "s3"), _version(world, bucket)
        assert not allows(s3.put_object, Bucket=bucket, Key=SEALED, Body=FORGED)
        assert not allows(s3.delete_object, Bucket=bucket, Key=SEALED, VersionId=version)


@pytest.mark.nightly
@pytest.mark.usefixtures("served")
def test_when_everything_of_dev_is_gone_staging_deploys_rolls_back_and_starts_again(
    world: World,
) -> None:
    first, second, missing = (world.release(each) for each in (HONEST, model(7), model(8)))
    for release in (first, second):
        assert world.deploy(release)[0] == "UPDATE_COMPLETE"
    s3, sagemaker = (world.accounts.root(DEV.account, each) for each in ("s3", "sagemaker"))
    for release in (first, second, missing):
        sagemaker.delete_model_package(ModelPackageName=release.model_package_arn)
    for key in world.existing():
        s3.delete_object(Bucket=ARTIFACTS, Key=key)
    group = {"ModelPackageGroupName": NAMES.model_package_group}
    policies = (
        s3.get_bucket_policy(Bucket=ARTIFACTS)["Policy"],
        sagemaker.get_model_package_group_policy(**group)["ResourcePolicy"],
    )
    s3.delete_bucket_policy(Bucket=ARTIFACTS)
    sagemaker.delete_model_package_group_policy(**group)
    assert world.deploy(first) == ("UPDATE_COMPLETE", [])  # as `git revert` does
    assert world.answer() == 6.0
    status, reasons = world.deploy(missing)
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    assert f"whether {missing.model_package_arn} is approved is not known" in reasons[0]
    assert world.answer() == 6.0
    world.destroy()
    assert SEALED in world.existing(OWN)
    assert world.deploy(second) == ("CREATE_COMPLETE", [])
    assert world.answer() == 14.0
    # As it was before, for other tests.
    s3.put_bucket_policy(Bucket=ARTIFACTS, Policy=policies[0])
    sagemaker.put_model_package_group_policy(**group, ResourcePolicy=policies[1])
    assert world.deploy(world.release(HONEST))[0] == "UPDATE_COMPLETE"


def _version(world: World, bucket: str) -> str:
    root = world.accounts.root(DEV.account if bucket == ARTIFACTS else STAGING.account, "s3")
    return str(root.head_object(Bucket=bucket, Key=SEALED)["VersionId"])
