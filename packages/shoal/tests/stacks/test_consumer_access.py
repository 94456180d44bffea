"""What dev's policies allow environments of other accounts, asked live: three accounts, dev's own
template, policies enforced.

The callers may do everything by the policies of their own account, so that only dev's side can
refuse.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from botocore.exceptions import ClientError

from local_kit.control import allow, eventually, make_role, register_version
from shoal.constructs.pipeline.training_pipeline import ModelRegistry
from shoal.settings.loading.consumers import consumers_of
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import BRING, SERVING_PROOF, Names
from shoal.settings.settings import Environment
from shoal_local.testing import LocalAccount, emulator
from stacks.data import DataStack
from tests.app import ShoalApp
from tests.cli.trained import IMAGE
from tests.repository import ROOT
from tests.stacks.reading import Template, properties, template_of_stack

DEV, STAGING, PROD = (load_environment(name, ROOT) for name in ("dev", "staging", "prod"))
NAMES = Names(DEV)
CONSUMERS = consumers_of(DEV, ROOT)
ARTIFACTS, DATA = NAMES.bucket("artifacts"), NAMES.bucket("data")
SEALED = f"models/{'2' * 64}/model.tar.gz"
OTHERS = (
    "training/execution2/pipelines-execution2-Train-x/output/model.tar.gz",
    "evaluation/execution2/evaluation.json",
    "code/x.tar.gz",
)
VERSION = NAMES.arn("sagemaker", f"model-package/{NAMES.model_package_group}/1")
STRANGER = "999900001111"
IAM = {"Capabilities": ["CAPABILITY_NAMED_IAM"]}


def data_template(environment: Environment, folder: Path, context: dict[str, Any]) -> Template:
    """Return the data stack of the environment, with a registry, as a protected one, which has no
    function.
    """
    names = Names(environment.model_copy(update={"protect": True}))
    app, consumers = cdk.App(outdir=str(folder), context=context), consumers_of(environment, ROOT)
    stack = DataStack(app, names=names, consumers=consumers)
    ModelRegistry(stack, "Registry", names=names, consumers=consumers)
    return template_of_stack(stack)


@dataclass(frozen=True)
class Accounts:
    """Clients of the emulator."""

    local: LocalAccount

    def root(self, account: str, service: str) -> Any:
        return self.local.other(account).client(service)

    def role(self, account: str, name: str, service: str) -> Any:
        """Return a client with a session of the role."""
        arn = f"arn:aws:iam::{account}:role/{name}"
        return self.local.other(account).as_role(service, arn)

    def make_role(self, account: str, name: str) -> None:
        """Create a role that its account allows everything."""
        principal = {"AWS": f"arn:aws:iam::{account}:root", "Service": "sagemaker.amazonaws.com"}
        make_role(self.root(account, "iam"), name, principal, {"everything": allow("*")})

    def deploy(self, account: str, stack: str, template: Any) -> tuple[str, list[str]]:
        """Create the stack, or update it; return its status and why resources failed."""
        cloudformation, body = self.root(account, "cloudformation"), json.dumps(template)
        try:
            before = {each["EventId"] for each in self._events(cloudformation, stack)}
            cloudformation.update_stack(StackName=stack, TemplateBody=body, **IAM)
        except ClientError:
            before = set()
            cloudformation.create_stack(StackName=stack, TemplateBody=body, **IAM)

        def status() -> str | None:
            (description,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
            ended = not description["StackStatus"].endswith("IN_PROGRESS")
            return str(description["StackStatus"]) if ended else None

        return str(eventually(status, 180.0)), [
            each["ResourceStatusReason"]
            for each in self._events(cloudformation, stack)
            if each["EventId"] not in before and each["ResourceStatus"].endswith("FAILED")
        ]

    def deploy_data(self, environment: Environment, folder: Path, context: dict[str, Any]) -> str:
        """Deploy the environment's data stack; return the ARN of its key."""
        self.root(environment.account, "ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="28", Type="String", Overwrite=True
        )
        template = data_template(environment, folder, context)
        assert self.deploy(environment.account, "data", template) == ("CREATE_COMPLETE", [])
        alias = f"alias/{Names(environment).prefix}"
        key = self.root(environment.account, "kms").describe_key(KeyId=alias)
        return str(key["KeyMetadata"]["Arn"])

    @staticmethod
    def _events(cloudformation: Any, stack: str) -> list[dict[str, Any]]:
        return list(cloudformation.describe_stack_events(StackName=stack)["StackEvents"])


@pytest.fixture(scope="module")
def accounts(
    tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]
) -> Iterator[Accounts]:
    folder = tmp_path_factory.mktemp("consumers")
    others = (STAGING.account, PROD.account, STRANGER)
    numbers = [word for number in (DEV.account, *others) for word in ("--account", number)]
    with emulator(folder / "state", *numbers, "--region", DEV.region, "--enforce-iam") as running:
        accounts = Accounts(running.account)
        accounts.deploy_data(DEV, folder / "cdk.out", cdk_context)
        for environment in (STAGING, PROD):
            for actor in (BRING, SERVING_PROOF, "training"):
                accounts.make_role(environment.account, Names(environment).role(actor))
        accounts.make_role(STRANGER, Names(PROD).role(BRING))
        s3 = accounts.root(DEV.account, "s3")
        for key in (SEALED, *OTHERS):
            s3.put_object(Bucket=ARTIFACTS, Key=key, Body=b"model")
        s3.put_object(Bucket=DATA, Key="datasets/mnist/train/1", Body=b"7")
        container = {"Image": IMAGE, "ModelDataUrl": f"s3://{ARTIFACTS}/{SEALED}"}
        sagemaker = accounts.root(DEV.account, "sagemaker")
        register_version(sagemaker, NAMES.model_package_group, container)
        yield accounts


def client(accounts: Accounts, service: str, actor: str = BRING, of: Environment = PROD) -> Any:
    return accounts.role(of.account, Names(of).role(actor), service)


def refused(call: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ClientError, match="AccessDenied") as caught:
        call(**arguments)
    return str(caught.value)


@pytest.mark.parametrize("environment", [STAGING, PROD], ids=lambda each: each.name)
def test_the_role_that_brings_archives_reads_sealed_ones(
    accounts: Accounts, environment: Environment
) -> None:
    s3 = client(accounts, "s3", of=environment)
    answer = s3.get_object(Bucket=ARTIFACTS, Key=SEALED)
    assert answer["Body"].read() == b"model"
    s3.head_object(Bucket=ARTIFACTS, Key=SEALED, VersionId=answer["VersionId"])


@pytest.mark.parametrize("actor", [SERVING_PROOF, "training"])
def test_no_other_role_of_the_same_account_reads_them(accounts: Accounts, actor: str) -> None:
    s3 = client(accounts, "s3", actor)
    refused(s3.get_object, Bucket=ARTIFACTS, Key=SEALED)
    refused(s3.copy_object, Bucket=ARTIFACTS, Key=OTHERS[0], CopySource=f"{ARTIFACTS}/{SEALED}")


def test_it_neither_lists_nor_writes_nor_reads_anything_else(accounts: Accounts) -> None:
    s3 = client(accounts, "s3")
    for key in OTHERS:
        assert "s3:GetObject" in refused(s3.get_object, Bucket=ARTIFACTS, Key=key)
    refused(s3.list_objects_v2, Bucket=ARTIFACTS)
    refused(s3.put_object, Bucket=ARTIFACTS, Key=SEALED, Body=b"poisoned")
    refused(s3.delete_object, Bucket=ARTIFACTS, Key=SEALED)
    refused(s3.get_object, Bucket=DATA, Key="datasets/mnist/train/1")


def test_the_key_is_of_no_use_outside_the_bucket(accounts: Accounts) -> None:
    root, kms = accounts.root(DEV.account, "kms"), client(accounts, "kms")
    key = root.describe_key(KeyId=f"alias/{NAMES.prefix}")["KeyMetadata"]["Arn"]
    secret = root.encrypt(KeyId=key, Plaintext=b"secret")["CiphertextBlob"]
    refused(kms.decrypt, KeyId=key, CiphertextBlob=secret)
    refused(kms.encrypt, KeyId=key, Plaintext=b"x")
    refused(kms.schedule_key_deletion, KeyId=key)


@pytest.mark.parametrize("actor", [BRING, "training"])
def test_a_consumer_sees_versions_and_can_neither_judge_nor_serve_them(
    accounts: Accounts, actor: str
) -> None:
    sagemaker = client(accounts, "sagemaker", actor)
    version = sagemaker.describe_model_package(ModelPackageName=VERSION)
    assert version["ModelApprovalStatus"] == "PendingManualApproval"
    group = NAMES.arn("sagemaker", f"model-package-group/{NAMES.model_package_group}")
    refused(sagemaker.list_model_packages, ModelPackageGroupName=group)
    refused(sagemaker.update_model_package, ModelPackageArn=VERSION, ModelApprovalStatus="Approved")
    refused(sagemaker.create_model_package, ModelPackageGroupName=group)
    refused(sagemaker.delete_model_package, ModelPackageName=VERSION)
    # This operation takes a name, so that another account's group cannot even be named.
    with pytest.raises(ClientError, match="at 'modelPackageGroupName' failed to satisfy"):
        sagemaker.delete_model_package_group_policy(ModelPackageGroupName=group)
    model = {"ModelName": "x", "ExecutionRoleArn": Names(PROD).role_arn(BRING)}
    refused(sagemaker.create_model, **model, Containers=[{"ModelPackageName": VERSION}])


def test_an_account_that_takes_no_releases_sees_nothing(accounts: Accounts) -> None:
    role = Names(PROD).role(BRING)
    sagemaker, s3 = (accounts.role(STRANGER, role, service) for service in ("sagemaker", "s3"))
    refused(sagemaker.describe_model_package, ModelPackageName=VERSION)
    refused(s3.get_object, Bucket=ARTIFACTS, Key=SEALED)


def test_the_template_names_an_account_only_where_it_takes_releases(
    tmp_path: Path, cdk_context: dict[str, Any]
) -> None:
    dev = data_template(DEV, tmp_path / "dev", cdk_context)
    staging = data_template(STAGING, tmp_path / "staging", cdk_context)
    assert PROD.account in json.dumps(dev)
    assert PROD.account not in json.dumps(staging)


def test_images_of_an_own_recipe_can_be_pulled_by_consumers_and_pushed_by_the_build_only(
    tmp_path: Path, cdk_context: dict[str, Any]
) -> None:
    from stacks.images import ImageStack

    training = NAMES.environment.training.model_copy(update={"build_image": "pytorch-smddp"})
    built = NAMES.environment.model_copy(update={"training": training})
    stack = ImageStack(
        ShoalApp(outdir=str(tmp_path), context=cdk_context, checked=False),
        names=Names(built),
        root=ROOT,
        consumers=CONSUMERS,
    )
    (repository,) = properties(template_of_stack(stack), "AWS::ECR::Repository")
    push, pull = repository["RepositoryPolicyText"]["Statement"]
    assert (push["Effect"], push["Sid"]) == ("Deny", "OnlyTheBuildPushes")
    assert (pull["Effect"], pull["Action"]) == (
        "Allow",
        ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
    )
    accounts = [json.dumps(each) for each in pull["Principal"]["AWS"]]
    assert [STAGING.account in accounts[0], PROD.account in accounts[1]] == [True, True]
