"""What dev's policies allow environments of other accounts, asked live: three accounts, dev's own
template, policies enforced.

The callers may do everything by the policies of their own account, so that only dev's side can
refuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError

from config.consumers import Consumer, consumers_of
from config.loader import load_environment
from config.names import SERVING_PROOF, Names
from config.release import Release
from config.release_text import with_release
from config.settings import Environment, SharedVersions
from local.tests.control.account import allow, eventually, trust
from shoal_local.testing import LocalAccount, emulator
from stacks.constructs.shared_releases import bucket_statements, registry_policy, shared_text
from stacks.data_stack import DataStack
from tests.config.releases import CONTENT
from tests.repository import ROOT

DEV, STAGING, PROD = (load_environment(name, ROOT) for name in ("dev", "staging", "prod"))
NAMES = Names(DEV)
ARTIFACTS, DATA = NAMES.bucket("artifacts"), NAMES.bucket("data")
ACTOR = Names(PROD).serving_role("0a1b2c")
READERS = (ACTOR, SERVING_PROOF)
ARCHIVES = {number: f"models/{str(number) * 64}/model.tar.gz" for number in (1, 2, 3, 4)}
"""Of each version; all are approved."""
PINNED = {"staging": (3,), "prod": (2, 1)}
"""What each environment's file pins, and what that replaced."""
ARCHIVE = ARCHIVES[2]
OTHERS = (
    "training/execution2/pipelines-execution2-Train-x/output/model.tar.gz",
    f"models/{'2' * 64}/output.tar.gz",
    "evaluation/execution2/evaluation.json",
    "code/x.tar.gz",
)
VERSIONS = {
    number: NAMES.arn("sagemaker", f"model-package/{NAMES.model_package_group}/{number}")
    for number in ARCHIVES
}
VERSION = VERSIONS[2]
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"  # noqa: E501


def release(number: int) -> Release:
    """Return a release as `shoal promote` pins it."""
    pins = {
        "model_package_arn": VERSIONS[number],
        "model_data_url": f"s3://{ARTIFACTS}/{ARCHIVES[number]}",
    }
    return Release(**CONTENT | pins | {"model_package_version": number})


def consumers(folder: Path, pinned: dict[str, tuple[int, ...]]) -> tuple[Consumer, ...]:
    """Return dev's consumers, in a repository in which each environment has promoted these
    versions, the first one last.
    """
    (folder / "environments").mkdir(parents=True)
    for name in ("dev", "staging", "prod"):
        text, before = (ROOT / f"environments/{name}.yaml").read_text(), None
        for number in reversed(pinned.get(name, ())):
            before = release(number).replacing(before)
            text = with_release(text, before, name)
        (folder / f"environments/{name}.yaml").write_text(text)
    return consumers_of(DEV, folder)


def data_template(
    folder: Path,
    context: dict[str, Any],
    consumers: tuple[Consumer, ...],
    shared: SharedVersions = SharedVersions.PINNED,
) -> dict[str, Any]:
    """Return dev's data stack as a protected one, which has no function."""
    protected = DEV.model_copy(update={"protect": True, "shared_versions": shared})
    app = cdk.App(outdir=str(folder), context=context)
    env = cdk.Environment(account=DEV.account, region=DEV.region)
    stack = DataStack(
        app,
        "data",
        names=Names(protected),
        functions=ROOT / "stacks" / "functions",
        env=env,
        consumers=consumers,
    )
    return dict(Template.from_stack(stack).to_json())


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
        iam = self.root(account, "iam")
        principal = {"AWS": f"arn:aws:iam::{account}:root", "Service": "sagemaker.amazonaws.com"}
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(principal))
        iam.put_role_policy(
            RoleName=name, PolicyName="everything", PolicyDocument=json.dumps(allow("*"))
        )


@pytest.fixture(scope="module")
def accounts(
    tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]
) -> Iterator[Accounts]:
    folder = tmp_path_factory.mktemp("shared")
    others = (STAGING.account, PROD.account, "999900001111")
    numbers = [word for number in (DEV.account, *others) for word in ("--account", number)]
    with emulator(folder / "state", *numbers, "--region", DEV.region, "--enforce-iam") as running:
        found = Accounts(running.account)
        deploy(
            found,
            data_template(
                folder / "cdk.out", cdk_context, consumers(folder / "repository", PINNED)
            ),
        )
        for environment in (STAGING, PROD):
            for actor in READERS:
                found.make_role(environment.account, Names(environment).role(actor))
            found.make_role(environment.account, "admin")
        found.make_role("999900001111", "admin")
        register(found)
        yield found


def deploy(accounts: Accounts, template: dict[str, Any], verb: str = "create") -> None:
    accounts.root(DEV.account, "ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="28", Type="String", Overwrite=True
    )
    cloudformation = accounts.root(DEV.account, "cloudformation")
    getattr(cloudformation, f"{verb}_stack")(StackName="data", TemplateBody=json.dumps(template))

    def status() -> str | None:
        stack = cloudformation.describe_stacks(StackName="data")["Stacks"][0]
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else str(stack["StackStatus"])

    done = eventually(status, 60.0)
    events = cloudformation.describe_stack_events(StackName="data")["StackEvents"]
    assert done == f"{verb.upper()}_COMPLETE", [
        event for event in events if event["ResourceStatus"].endswith("FAILED")
    ]


def register(accounts: Accounts) -> None:
    s3, sagemaker = (accounts.root(DEV.account, service) for service in ("s3", "sagemaker"))
    for key in (*ARCHIVES.values(), *OTHERS):
        s3.put_object(Bucket=ARTIFACTS, Key=key, Body=b"model")
    s3.put_object(Bucket=DATA, Key="datasets/mnist/train/1", Body=b"7")
    for archive in ARCHIVES.values():
        container = {"Image": IMAGE, "ModelDataUrl": f"s3://{ARTIFACTS}/{archive}"}
        sources = {
            "Containers": [container],
            "SupportedContentTypes": ["text/csv"],
            "SupportedResponseMIMETypes": ["text/csv"],
        }
        sagemaker.create_model_package(
            ModelPackageGroupName=NAMES.model_package_group,
            ModelApprovalStatus="Approved",
            InferenceSpecification=sources,
        )


def refused(call: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ClientError, match="AccessDenied") as caught:
        call(**arguments)
    return str(caught.value)


def reads(accounts: Accounts, environment: Environment, actor: str = ACTOR) -> set[int]:
    """Return the numbers of the versions whose archives the role can read."""
    s3 = accounts.role(environment.account, Names(environment).role(actor), "s3")
    return {
        number
        for number, key in ARCHIVES.items()
        if allows(s3.get_object, Bucket=ARTIFACTS, Key=key)
    }


def sees(accounts: Accounts, environment: Environment) -> set[int]:
    """Return the numbers of the versions that an account with all rights of its own can
    describe.
    """
    sagemaker = accounts.role(environment.account, "admin", "sagemaker")
    return {
        number
        for number, arn in VERSIONS.items()
        if allows(sagemaker.describe_model_package, ModelPackageName=arn)
    }


def makes_models_of(accounts: Accounts, environment: Environment) -> set[int]:
    """Return the numbers of the versions that a model can be made of."""
    sagemaker = accounts.role(environment.account, "admin", "sagemaker")
    model = {
        "ExecutionRoleArn": Names(environment).role_arn(Names(environment).serving_role("0a1b2c"))
    }

    def makes(number: int) -> bool:
        return allows(
            sagemaker.create_model,
            **model,
            ModelName=f"of-{number}",
            Containers=[{"ModelPackageName": VERSIONS[number]}],
        )

    makeable = {number for number in VERSIONS if makes(number)}
    for number in makeable:
        sagemaker.delete_model(ModelName=f"of-{number}")
    return makeable


def allows(call: Callable[..., Any], **arguments: Any) -> bool:
    """Return whether the call succeeds; errors other than refusals are raised."""
    try:
        call(**arguments)
    except ClientError as error:
        if "AccessDenied" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("actor", READERS)
@pytest.mark.parametrize("environment", [STAGING, PROD], ids=lambda each: each.name)
def test_the_serving_role_and_the_proof_read_the_archives_that_their_file_names_and_no_other(
    accounts: Accounts, environment: Environment, actor: str
) -> None:
    assert reads(accounts, environment, actor) == set(PINNED[environment.name])


@pytest.mark.parametrize("environment", [STAGING, PROD], ids=lambda each: each.name)
def test_a_consumer_sees_and_serves_the_versions_that_its_file_names_and_no_other_that_is_approved(
    accounts: Accounts, environment: Environment
) -> None:
    assert (
        sees(accounts, environment)
        == makes_models_of(accounts, environment)
        == set(PINNED[environment.name])
    )


@pytest.mark.parametrize(
    ("pinned", "shared", "readable"),
    [
        (PINNED, SharedVersions.EVERY, {1, 2, 3, 4}),
        ({"prod": (4, 3, 2, 1)}, SharedVersions.PINNED, {4, 3, 2}),
        ({"staging": (4,)}, SharedVersions.PINNED, set()),
    ],
)
def test_another_deployment_opens_and_closes_what_the_files_say_then(
    accounts: Accounts,
    tmp_path: Path,
    cdk_context: dict[str, Any],
    pinned: dict[str, tuple[int, ...]],
    shared: SharedVersions,
    readable: set[int],
) -> None:
    deploy(
        accounts,
        data_template(
            tmp_path / "cdk.out", cdk_context, consumers(tmp_path / "then", pinned), shared
        ),
        "update",
    )
    try:
        assert (
            reads(accounts, PROD)
            == sees(accounts, PROD)
            == makes_models_of(accounts, PROD)
            == readable
        )
    finally:
        deploy(
            accounts,
            data_template(tmp_path / "again", cdk_context, consumers(tmp_path / "before", PINNED)),
            "update",
        )


@pytest.mark.parametrize("key", OTHERS)
def test_it_reads_no_other_object_of_the_bucket(accounts: Accounts, key: str) -> None:
    assert "s3:GetObject" in refused(
        accounts.role(PROD.account, Names(PROD).role(ACTOR), "s3").get_object,
        Bucket=ARTIFACTS,
        Key=key,
    )


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
    key = accounts.root(DEV.account, "kms").describe_key(KeyId=f"alias/{NAMES.prefix}")[
        "KeyMetadata"
    ]["Arn"]
    kms = accounts.role(PROD.account, Names(PROD).role(ACTOR), "kms")
    secret = accounts.root(DEV.account, "kms").encrypt(KeyId=key, Plaintext=b"secret")[
        "CiphertextBlob"
    ]
    refused(kms.decrypt, KeyId=key, CiphertextBlob=secret)
    refused(kms.encrypt, KeyId=key, Plaintext=b"x")
    refused(kms.schedule_key_deletion, KeyId=key)


def test_a_consumer_can_neither_judge_nor_change_what_it_reads(accounts: Accounts) -> None:
    sagemaker = accounts.role(PROD.account, "admin", "sagemaker")
    assert (
        sagemaker.describe_model_package(ModelPackageName=VERSION)["ModelApprovalStatus"]
        == "Approved"
    )
    group = NAMES.arn("sagemaker", f"model-package-group/{NAMES.model_package_group}")
    refused(sagemaker.list_model_packages, ModelPackageGroupName=group)
    refused(sagemaker.update_model_package, ModelPackageArn=VERSION, ModelApprovalStatus="Rejected")
    refused(sagemaker.create_model_package, ModelPackageGroupName=group)
    refused(sagemaker.delete_model_package, ModelPackageName=VERSION)
    refused(sagemaker.delete_model_package_group_policy, ModelPackageGroupName=group)


def test_an_account_that_takes_no_releases_sees_nothing(accounts: Accounts) -> None:
    refused(
        accounts.role("999900001111", "admin", "sagemaker").describe_model_package,
        ModelPackageName=VERSION,
    )
    refused(accounts.role("999900001111", "admin", "s3").get_object, Bucket=ARTIFACTS, Key=ARCHIVE)


def test_an_environment_with_copies_shares_these_and_nothing_that_it_trained() -> None:
    (prod,) = consumers_of(DEV, ROOT)[:1]
    every = STAGING.model_copy(update={"shared_versions": SharedVersions.EVERY})
    (shared,) = bucket_statements(Names(every), (prod,))
    assert shared.resources == [
        f"arn:aws:s3:::{Names(STAGING).bucket('artifacts')}/releases/*/model.tar.gz"
    ]


def test_environments_of_one_account_share_what_either_pins() -> None:
    policy = registry_policy(
        NAMES,
        [
            Consumer(str(number), PROD.account, "arn:a", "arn:b", (VERSIONS[number],))
            for number in (2, 1)
        ],
    )
    assert policy is not None
    assert [each["Resource"] for each in policy["Statement"]][1:] == [[VERSIONS[1], VERSIONS[2]]]


def test_the_template_says_who_reads_what(tmp_path: Path, cdk_context: dict[str, Any]) -> None:
    template = data_template(
        tmp_path / "cdk.out",
        cdk_context,
        consumers(tmp_path / "repository", PINNED | {"staging": ()}),
    )
    reads = (
        f"prod ({PROD.account}) reads shoal-mnist-dev/2, shoal-mnist-dev/1; staging"
        f" ({STAGING.account}) reads nothing"
    )
    assert template["Outputs"]["Consumers"]["Value"] == reads


def test_a_version_whose_archive_lies_where_none_are_shared_is_told() -> None:
    elsewhere = Consumer(
        "prod", PROD.account, "arn:a", "arn:b", (VERSIONS[2], VERSIONS[1]), (ARCHIVES[1],)
    )
    text = "reads shoal-mnist-dev/2, shoal-mnist-dev/1 (1 without an archive that is shared)"
    assert shared_text(NAMES, [elsewhere]) == f"prod ({PROD.account}) {text}"


def test_no_pattern_is_in_what_is_shared(tmp_path: Path) -> None:
    readers = consumers(tmp_path, PINNED)
    registry, bucket = (
        registry_policy(NAMES, readers),
        [each.to_json() for each in bucket_statements(NAMES, readers)],
    )
    assert registry is not None
    assert "*" not in json.dumps([each["Resource"] for each in (*registry["Statement"], *bucket)])


def test_without_consumers_no_other_account_is_named(
    tmp_path: Path, cdk_context: dict[str, Any]
) -> None:
    text = json.dumps(data_template(tmp_path, cdk_context, ()))
    assert not any(
        account in text for account in (STAGING.account, PROD.account, "ModelPackageGroupPolicy")
    )
