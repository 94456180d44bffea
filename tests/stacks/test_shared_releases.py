"""What dev's policies give to environments of other accounts, asked live: three accounts, dev's own template, policies enforced. Whoever
asks may do everything by the policies of their own account, so that only dev's side can refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError

from config.consumers import Consumer, consumers_of
from config.loader import load_environment
from config.names import SERVING_PROOF, Names
from emulator.server import Emulator, Options
from stacks.constructs.shared_releases import bucket_statements
from stacks.data_stack import DataStack
from tests.emulator.control.account import allow, eventually, trust
from tests.stacks.conftest import ROOT

DEV, STAGING, PROD = (load_environment(name, ROOT) for name in ("dev", "staging", "prod"))
NAMES = Names(DEV)
ARTIFACTS, DATA = NAMES.bucket("artifacts"), NAMES.bucket("data")
ACTOR = Names(PROD).serving_role("0a1b2c")
READERS = (ACTOR, SERVING_PROOF)
ARCHIVE = "training/abcdefghijkl/pipelines-abcdefghijkl-Train-x/output/model.tar.gz"
OTHERS = (
    "training/abcdefghijkl/pipelines-abcdefghijkl-Train-x/output/output.tar.gz",
    "evaluation/abcdefghijkl/evaluation.json",
    "code/x.tar.gz",
)
VERSION = NAMES.arn("sagemaker", f"model-package/{NAMES.model_package_group}/1")
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"


def data_template(folder: Path, context: dict[str, Any], consumers: tuple[Consumer, ...]) -> dict[str, Any]:
    """dev's data stack as a protected one, which has no function."""
    protected = DEV.model_copy(update={"protect": True})
    app = cdk.App(outdir=str(folder), context=context)
    env = cdk.Environment(account=DEV.account, region=DEV.region)
    stack = DataStack(app, "data", names=Names(protected), functions=ROOT / "functions", env=env, consumers=consumers)
    return dict(Template.from_stack(stack).to_json())


@dataclass(frozen=True)
class Accounts:
    """Clients of the emulator."""

    endpoint: str

    def root(self, account: str, service: str) -> Any:
        return self._client(service, f"AKIA{account}ROOT", "unverified", None)

    def role(self, account: str, name: str, service: str) -> Any:
        """As a session of the role."""
        arn = f"arn:aws:iam::{account}:role/{name}"
        made = self.root(account, "sts").assume_role(RoleArn=arn, RoleSessionName="tests")["Credentials"]
        return self._client(service, made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])

    def _client(self, service: str, key: str, secret: str, token: str | None) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service,
            region_name=DEV.region,
            endpoint_url=self.endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=token,
        )

    def make_role(self, account: str, name: str) -> None:
        """One that its account lets do everything."""
        iam = self.root(account, "iam")
        principal = {"AWS": f"arn:aws:iam::{account}:root", "Service": "sagemaker.amazonaws.com"}
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(principal))
        iam.put_role_policy(RoleName=name, PolicyName="everything", PolicyDocument=json.dumps(allow("*")))


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]) -> Iterator[Accounts]:
    folder = tmp_path_factory.mktemp("shared")
    emulator = Emulator(
        Options(folder / "state", DEV.account, DEV.region, others=(STAGING.account, PROD.account, "999900001111"), enforce_iam=True)
    )
    (folder / "state").mkdir()
    emulator.start()
    found = Accounts(emulator.endpoint_url())
    deploy(found, data_template(folder / "cdk.out", cdk_context, consumers_of(DEV, ROOT)))
    for environment in (STAGING, PROD):
        for actor in READERS:
            found.make_role(environment.account, Names(environment).role(actor))
        found.make_role(environment.account, "admin")
    found.make_role("999900001111", "admin")
    register(found)
    yield found
    emulator.close()


def deploy(accounts: Accounts, template: dict[str, Any]) -> None:
    accounts.root(DEV.account, "ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Value="28", Type="String")
    cloudformation = accounts.root(DEV.account, "cloudformation")
    cloudformation.create_stack(StackName="data", TemplateBody=json.dumps(template))

    def status() -> str | None:
        stack = cloudformation.describe_stacks(StackName="data")["Stacks"][0]
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else str(stack["StackStatus"])

    assert eventually(status, 60.0) == "CREATE_COMPLETE"


def register(accounts: Accounts) -> None:
    s3 = accounts.root(DEV.account, "s3")
    for key in (ARCHIVE, *OTHERS):
        s3.put_object(Bucket=ARTIFACTS, Key=key, Body=b"model")
    s3.put_object(Bucket=DATA, Key="datasets/mnist/train/1", Body=b"7")
    container = {"Image": IMAGE, "ModelDataUrl": f"s3://{ARTIFACTS}/{ARCHIVE}"}
    served = {"Containers": [container], "SupportedContentTypes": ["text/csv"], "SupportedResponseMIMETypes": ["text/csv"]}
    accounts.root(DEV.account, "sagemaker").create_model_package(
        ModelPackageGroupName=NAMES.model_package_group, ModelApprovalStatus="Approved", InferenceSpecification=served
    )


def refused(call: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ClientError, match="AccessDenied") as caught:
        call(**arguments)
    return str(caught.value)


@pytest.mark.parametrize("actor", READERS)
@pytest.mark.parametrize("environment", [STAGING, PROD], ids=lambda each: each.name)
def test_the_serving_role_and_the_proof_read_a_models_archive(accounts: Accounts, environment: Any, actor: str) -> None:
    s3 = accounts.role(environment.account, Names(environment).role(actor), "s3")
    assert s3.get_object(Bucket=ARTIFACTS, Key=ARCHIVE)["Body"].read() == b"model"


@pytest.mark.parametrize("key", OTHERS)
def test_it_reads_no_other_object_of_the_bucket(accounts: Accounts, key: str) -> None:
    assert "s3:GetObject" in refused(accounts.role(PROD.account, Names(PROD).role(ACTOR), "s3").get_object, Bucket=ARTIFACTS, Key=key)


def test_it_neither_lists_nor_writes_nor_reads_training_data(accounts: Accounts) -> None:
    s3 = accounts.role(PROD.account, Names(PROD).role(ACTOR), "s3")
    refused(s3.list_objects_v2, Bucket=ARTIFACTS)
    refused(s3.put_object, Bucket=ARTIFACTS, Key=ARCHIVE, Body=b"poisoned")
    refused(s3.delete_object, Bucket=ARTIFACTS, Key=ARCHIVE)
    refused(s3.get_object, Bucket=DATA, Key="datasets/mnist/train/1")


def test_nobody_else_in_a_consumers_account_can_decrypt_an_archive(accounts: Accounts) -> None:
    s3 = accounts.role(PROD.account, "admin", "s3")
    assert s3.head_object(Bucket=ARTIFACTS, Key=ARCHIVE)["ContentLength"] == 5
    assert "kms:Decrypt" in refused(s3.get_object, Bucket=ARTIFACTS, Key=ARCHIVE)


def test_the_key_is_of_no_use_outside_the_bucket(accounts: Accounts) -> None:
    key = accounts.root(DEV.account, "kms").describe_key(KeyId=f"alias/{NAMES.prefix}")["KeyMetadata"]["Arn"]
    kms = accounts.role(PROD.account, Names(PROD).role(ACTOR), "kms")
    secret = accounts.root(DEV.account, "kms").encrypt(KeyId=key, Plaintext=b"secret")["CiphertextBlob"]
    refused(kms.decrypt, KeyId=key, CiphertextBlob=secret)
    refused(kms.encrypt, KeyId=key, Plaintext=b"x")
    refused(kms.schedule_key_deletion, KeyId=key)


def test_a_consumer_makes_a_model_of_an_approved_version_and_cannot_judge_it(accounts: Accounts) -> None:
    sagemaker = accounts.role(PROD.account, "admin", "sagemaker")
    assert sagemaker.describe_model_package(ModelPackageName=VERSION)["ModelApprovalStatus"] == "Approved"
    role = Names(PROD).role_arn(ACTOR)
    made = sagemaker.create_model(ModelName="served", ExecutionRoleArn=role, Containers=[{"ModelPackageName": VERSION}])
    assert made["ModelArn"].split(":")[4] == PROD.account
    group = NAMES.arn("sagemaker", f"model-package-group/{NAMES.model_package_group}")
    refused(sagemaker.update_model_package, ModelPackageArn=VERSION, ModelApprovalStatus="Rejected")
    refused(sagemaker.create_model_package, ModelPackageGroupName=group)
    refused(sagemaker.delete_model_package, ModelPackageName=VERSION)
    refused(sagemaker.delete_model_package_group_policy, ModelPackageGroupName=group)


def test_an_account_that_takes_no_releases_sees_nothing(accounts: Accounts) -> None:
    refused(accounts.role("999900001111", "admin", "sagemaker").describe_model_package, ModelPackageName=VERSION)
    refused(accounts.role("999900001111", "admin", "s3").get_object, Bucket=ARTIFACTS, Key=ARCHIVE)


def test_an_environment_with_copies_shares_these_and_nothing_that_it_trained() -> None:
    (prod,) = consumers_of(DEV, ROOT)[:1]
    (shared,) = bucket_statements(Names(STAGING), (prod,))
    assert shared.resources == [f"arn:aws:s3:::{Names(STAGING).bucket('artifacts')}/releases/*/model.tar.gz"]


def test_the_template_says_who_consumes(tmp_path: Path, cdk_context: dict[str, Any]) -> None:
    template = data_template(tmp_path, cdk_context, consumers_of(DEV, ROOT))
    assert template["Outputs"]["Consumers"]["Value"] == f"prod ({PROD.account}), staging ({STAGING.account})"


def test_without_consumers_no_other_account_is_named(tmp_path: Path, cdk_context: dict[str, Any]) -> None:
    text = json.dumps(data_template(tmp_path, cdk_context, ()))
    assert not any(account in text for account in (STAGING.account, PROD.account, "ModelPackageGroupPolicy"))
