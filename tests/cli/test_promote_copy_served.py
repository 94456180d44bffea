"""A copied release in use, with enforced policies and the synthesised data stack.

Roles with few rights make the copy, and an endpoint answers with the serving stack's role when
nothing of dev exists any more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from boto3 import Session
from botocore.exceptions import ClientError

from config.loader import load_environment
from config.names import Names
from config.release import Release
from local.tests.control.account import allow, eventually, trust
from local.tests.sagemaker.account import PROGRAMS
from local.tests.sagemaker.hosted import BUSY, ENVIRONMENT
from shoal.verbs import registry as entries
from shoal.verbs.errors import NotSharedError
from shoal.verbs.image_copy import ImageCopy
from shoal.verbs.local_server import LocalServer, build_runtimes
from shoal.verbs.release_copy import ReleaseCopy
from shoal.verbs.shared_release import require_shared
from shoal.verbs.target import Target
from tests.cli.conftest import STAGING
from tests.cli.test_promote_copy import TO_STAGING, Image, delete_in_dev, promoted
from tests.cli.trained import CODE, Checkout, Package, Registry
from tests.identity.synth import synthesised
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, REGION

ENV = load_environment("staging", ROOT)
NAMES = Names(ENV)
BUCKET = f"arn:aws:s3:::{NAMES.bucket('artifacts')}"
PROGRAM = (PROGRAMS / "inference.py").read_bytes()
THREE_TIMES = {"code/inference.py": PROGRAM, "model.txt": b"3"}
READS = [
    allow(
        "s3:GetObject", f"arn:aws:s3:::{Names(load_environment('dev', ROOT)).bucket('artifacts')}/*"
    ),
    allow(
        "s3:GetObjectVersion",
        f"arn:aws:s3:::{Names(load_environment('dev', ROOT)).bucket('artifacts')}/*",
    ),
    allow("sagemaker:DescribeModelPackage"),
]


def writes(key: str) -> list[dict[str, Any]]:
    """Return the actions that the target account must allow, as docs/decisions/accounts.md says."""
    registry = [
        NAMES.arn("sagemaker", f"{kind}/{NAMES.model_package_group}{end}")
        for kind, end in _REGISTRY
    ]
    return [
        allow(["s3:ListBucket", "s3:GetBucketVersioning"], BUCKET),
        allow(["s3:PutObject", "s3:GetObject"], f"{BUCKET}/releases/*"),
        allow(["kms:DescribeKey", "kms:GenerateDataKey", "kms:Decrypt"], key),
        *(allow(_REGISTERS, each) for each in registry),
    ]


READS_IMAGE = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
WRITES_IMAGE = [
    f"ecr:{each}"
    for each in (
        "BatchGetImage",
        "BatchCheckLayerAvailability",
        "InitiateLayerUpload",
        "UploadLayerPart",
        "CompleteLayerUpload",
        "PutImage",
    )
]
"""In the order of use, as docs/decisions/accounts.md says of repositories."""
_REGISTRY = (("model-package-group", ""), ("model-package", "/*"))
_REGISTERS = [
    f"sagemaker:{each}"
    for each in (
        "DescribeModelPackageGroup",
        "ListModelPackages",
        "DescribeModelPackage",
        "CreateModelPackage",
        "UpdateModelPackage",
    )
]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    folder = tmp_path_factory.mktemp("strict")
    build_runtimes(ROOT, os.environ, "pytorch", folder / "runtimes.log", print)
    process = LocalServer(
        ROOT, folder / "state", folder / "emulator.log", {"PATH": "/usr/bin:/bin"}
    )
    process.start(ACCOUNT, REGION, enforce_iam=True, other_accounts=[STAGING])
    yield process
    process.shut_down()


@pytest.fixture(scope="module")
def registry(strict: LocalServer) -> Registry:
    """Return dev's registry."""
    return Registry(strict.require().target)


@pytest.fixture(scope="module")
def staging(strict: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """Deploy staging's own data stack: its key and bucket apply their policies."""
    target = strict.require().target_of(STAGING)
    template = synthesised({"staging": ENV}, tmp_path_factory.mktemp("before"))["staging"].stacks[
        NAMES.stack("data")
    ]
    target.client("ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="28", Type="String"
    )
    cloudformation = target.client("cloudformation")
    cloudformation.create_stack(StackName=NAMES.stack("data"), TemplateBody=json.dumps(template))

    def status() -> str | None:
        (stack,) = cloudformation.describe_stacks(StackName=NAMES.stack("data"))["Stacks"]
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else str(stack["StackStatus"])

    assert eventually(status, 60.0) == "CREATE_COMPLETE"
    return target


@pytest.fixture
def checkout(strict: LocalServer, tmp_path: Path) -> Checkout:
    """Return a checkout with code that a container really serves."""
    new = Checkout.new(tmp_path, strict.state, staging=STAGING)
    (new.root / "training_code/pytorch/inference.py").write_bytes(PROGRAM)
    new.commit("Serve")
    return new


def trained(registry: Registry) -> Package:
    return registry.approved(
        code={**CODE, "inference.py": PROGRAM.decode()}, served=THREE_TIMES, environment=ENVIRONMENT
    )


def make_role(
    target: Target, name: str, principal: dict[str, Any], policies: list[dict[str, Any]]
) -> str:
    iam = target.client("iam")
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(principal))
    for number, policy in enumerate(policies):
        iam.put_role_policy(
            RoleName=name, PolicyName=f"given-{number}", PolicyDocument=json.dumps(policy)
        )
    return str(role["Role"]["Arn"])


def as_role(target: Target, name: str, policies: list[dict[str, Any]]) -> Target:
    """Return the same account with a session of a new role."""
    arn = make_role(target, name, {"AWS": f"arn:aws:iam::{target.account}:root"}, policies)
    credentials = target.client("sts").assume_role(RoleArn=arn, RoleSessionName="copies")[
        "Credentials"
    ]
    session = Session(
        credentials["AccessKeyId"],
        credentials["SecretAccessKey"],
        credentials["SessionToken"],
        target.region,
    )
    assumed = replace(target)
    object.__setattr__(assumed, "_session", session)
    return assumed


def key_of(target: Target) -> str:
    return str(
        target.client("kms").describe_key(KeyId=f"alias/{NAMES.prefix}")["KeyMetadata"]["Arn"]
    )


def serving_policies(release: Release, key: str, folder: Path) -> list[dict[str, Any]]:
    """Return the container role's policies in staging's serving stack when it pins `release`."""
    pinning = ENV.model_copy(update={"release": release})
    policies = synthesised({"staging": pinning}, folder)["staging"].identity_policies()
    (role,) = (name for name in policies if "-serving-" in name and not name.endswith("-proof"))
    text = json.dumps(list(policies[role].values()))
    assert "key/" in text
    (placeholder,) = {part.split('"')[0] for part in text.split("arn:aws:kms:")[1:]}
    return list(json.loads(text.replace(f"arn:aws:kms:{placeholder}", key)))


def served(target: Target, name: str, package: str, role: str) -> dict[str, Any]:
    """Create the endpoint of that name and wait until it settles."""
    sagemaker = target.client("sagemaker")
    sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=role, Containers=[{"ModelPackageName": package}]
    )
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": name,
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    look = partial(sagemaker.describe_endpoint, EndpointName=name)
    settled: dict[str, Any] = eventually(
        lambda: (each := look())["EndpointStatus"] not in BUSY and each, 120.0
    )
    return settled


def test_an_endpoint_starts_from_a_copy_when_nothing_of_dev_is_left(
    checkout: Checkout, registry: Registry, staging: Target, tmp_path: Path
) -> None:
    package = trained(registry)
    release = promoted(checkout, *TO_STAGING, "--package", package.version, "--copy")
    delete_in_dev(registry, package)
    policies = serving_policies(release, key_of(staging), tmp_path / "after")
    service = {"Service": "sagemaker.amazonaws.com"}
    endpoint = served(
        staging,
        "copied",
        release.model_package_arn,
        make_role(staging, "serves", service, policies),
    )
    assert endpoint["EndpointStatus"] == "InService", endpoint.get("FailureReason")
    answer = staging.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="copied", Body=b'{"x": 2}', ContentType="application/json"
    )
    assert json.loads(answer["Body"].read()) == {"y": 6.0}
    without = [
        each
        | {
            "Statement": [
                statement for statement in each["Statement"] if statement["Sid"] != "DecryptArchive"
            ]
        }
        for each in policies
    ]
    refused = served(
        staging,
        "refused",
        release.model_package_arn,
        make_role(staging, "may-not-read", service, without),
    )
    assert refused["EndpointStatus"] == "Failed"
    assert "Access" in refused["FailureReason"] or "not authorized" in refused["FailureReason"]


def test_whoever_copies_needs_no_more_than_what_is_written_down(
    checkout: Checkout, registry: Registry, staging: Target
) -> None:
    package = trained(registry)
    release = promoted(checkout, *TO_STAGING, "--package", package.version)
    reader, writer = (
        as_role(registry.target, "reads", READS),
        as_role(staging, "writes", writes(key_of(staging))),
    )
    copying = ReleaseCopy(reader, writer, NAMES, lambda _: None)
    copied = copying.copy(
        release, entries.describe(reader, package.arn), copying.require_deployed()
    )
    assert (copied.copied_from, copied.account) == (package.arn, STAGING)
    assert entries.describe(staging, copied.model_package_arn).approval == "Approved"


def test_who_may_not_ask_whether_a_release_is_readable_is_told_so_and_goes_on(
    checkout: Checkout, registry: Registry, staging: Target
) -> None:
    release = promoted(checkout, *TO_STAGING, "--package", trained(registry).version)
    notice = require_shared(as_role(staging, "may-not-ask", []), ENV, release, "")
    assert notice.startswith(
        "whether staging may read the release that it pins was not checked: DescribeModelPackage"
        " was refused"
    )
    with pytest.raises(NotSharedError, match="does not let"):
        require_shared(
            as_role(staging, "may-ask", [allow("sagemaker:DescribeModelPackage")]), ENV, release, ""
        )


def test_whoever_copies_an_image_needs_each_right_that_is_written_down_and_no_more(
    registry: Registry, staging: Target
) -> None:
    image = Image.pushed(registry.target)
    staging.client("ecr").create_repository(repositoryName=image.repository)

    def role(target: Target, name: str, actions: list[str]) -> Target:
        return as_role(
            target,
            name,
            [
                allow(
                    actions, f"arn:aws:ecr:{REGION}:{target.account}:repository/{image.repository}"
                )
            ],
        )

    def copy(source: Target, target: Target) -> None:
        ImageCopy(source, target, image.repository, lambda _: None, []).copy(image.digest)

    reader, writer = (
        role(registry.target, "reads-image", READS_IMAGE),
        role(staging, "writes-image", WRITES_IMAGE),
    )
    for number, action in enumerate(READS_IMAGE):
        less = role(
            registry.target,
            f"reads-less-{number}",
            [each for each in READS_IMAGE if each != action],
        )
        with pytest.raises(ClientError, match=action):
            copy(less, writer)
    for number, action in enumerate(WRITES_IMAGE):
        less = role(
            staging, f"writes-less-{number}", [each for each in WRITES_IMAGE if each != action]
        )
        with pytest.raises(ClientError, match=action):
            copy(reader, less)
    copy(reader, writer)
    assert image.pulled(staging) == image.blobs
