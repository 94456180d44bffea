"""A release that is copied to the account that serves it, in three accounts.

Nothing of dev's is needed afterwards.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from config.loader import load_environment
from config.names import Names
from config.release import Release
from local.tests.control.account import trust
from shoal.verbs import registry as entries
from shoal.verbs.errors import CopyError
from shoal.verbs.image_copy import ImageCopy
from shoal.verbs.local_server import LocalServer
from shoal.verbs.release_copy import ReleaseCopy
from shoal.verbs.target import Target
from tests.cli.conftest import PROD, STAGING
from tests.cli.test_promote import pinned, refusal
from tests.cli.trained import Checkout, Package, Registry
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, REGION

TO_STAGING = ("promote", "--from", "dev", "--to", "staging")
TO_PROD = ("promote", "--from", "staging", "--to", "prod")


class Own:
    """The parts of an environment's data stack: key, bucket, registry."""

    def __init__(self, three_accounts: LocalServer, name: str) -> None:
        self.names = Names(load_environment(name, ROOT))
        self.target = three_accounts.require().target_of(self.names.environment.account)
        self.s3, self.sagemaker = self.target.client("s3"), self.target.client("sagemaker")
        self.bucket = self.names.bucket("artifacts")

    def deploy(self) -> Own:
        kms = self.target.client("kms")
        self.key = kms.create_key()["KeyMetadata"]["Arn"]
        kms.create_alias(AliasName=f"alias/{self.names.prefix}", TargetKeyId=self.key)
        self.s3.create_bucket(Bucket=self.bucket)
        self.s3.put_bucket_versioning(
            Bucket=self.bucket, VersioningConfiguration={"Status": "Enabled"}
        )
        self.make_group()
        return self

    def make_group(self) -> None:
        self.sagemaker.create_model_package_group(
            ModelPackageGroupName=self.names.model_package_group
        )

    def serving_role(self) -> str:
        trusted = trust({"Service": "sagemaker.amazonaws.com"})
        role = self.target.client("iam").create_role(
            RoleName=self.names.role("serving"), AssumeRolePolicyDocument=trusted
        )
        return str(role["Role"]["Arn"])

    def entries(self) -> list[str]:
        return [arn for arn, _ in entries.versions(self.target, self.names.model_package_group)]

    def objects(self) -> list[str]:
        """Return every version of every object."""
        versions = self.s3.list_object_versions(Bucket=self.bucket).get("Versions", [])
        return sorted(f"{each['Key']} {each['VersionId']}" for each in versions)

    def archive(self, release: Release) -> dict[str, Any]:
        place = urlsplit(release.model_data_url)
        assert place.netloc == self.bucket
        answer: dict[str, Any] = self.s3.get_object(
            Bucket=place.netloc, Key=place.path[1:], VersionId=release.model_data_version_id
        )
        return answer


@pytest.fixture(scope="module")
def staging(three_accounts: LocalServer) -> Own:
    return Own(three_accounts, "staging").deploy()


@pytest.fixture(scope="module")
def prod(three_accounts: LocalServer) -> Own:
    return Own(three_accounts, "prod").deploy()


@pytest.fixture
def checkout(three_accounts: LocalServer, tmp_path: Path) -> Checkout:
    return Checkout.new(tmp_path, three_accounts.state, staging=STAGING)


def promoted(checkout: Checkout, *arguments: str) -> Release:
    """Return the pinned release after the branch of a promotion was merged."""
    before = set(checkout.branches())
    assert checkout.shoal(*arguments) == 0
    (branch,) = set(checkout.branches()) - before
    checkout.merge(branch)
    return pinned(checkout, arguments[4])


def delete_in_dev(registry: Registry, package: Package) -> None:
    """Delete the version, and every version of every object of dev's bucket."""
    registry.sagemaker.delete_model_package(ModelPackageName=package.arn)
    for each in registry.s3.list_object_versions(Bucket=registry.bucket).get("Versions", []):
        registry.s3.delete_object(
            Bucket=registry.bucket, Key=each["Key"], VersionId=each["VersionId"]
        )


def test_a_copied_release_needs_nothing_of_the_account_that_trained_it(
    checkout: Checkout,
    registry_of_dev: Registry,
    staging: Own,
    prod: Own,
    capsys: pytest.CaptureFixture[str],
) -> None:
    package = registry_of_dev.approved()
    promoted(checkout, *TO_STAGING, "--package", package.version, "--copy")
    delete_in_dev(registry_of_dev, package)
    release = promoted(checkout, *TO_PROD, "--copy")
    capsys.readouterr()
    assert checkout.shoal("release", "status", "staging", "prod") == 0
    assert (
        f"prod: pins {release.model_package_arn}, a copy of {package.arn}\n"
        in capsys.readouterr().out
    )
    model = {"ExecutionRoleArn": prod.serving_role(), "ModelName": "copied"}
    assert prod.sagemaker.create_model(
        **model, Containers=[{"ModelPackageName": release.model_package_arn}]
    )
    with pytest.raises(
        ClientError, match="no resource-based policy allows the sagemaker:CreateModel"
    ):
        prod.sagemaker.create_model(
            **model | {"ModelName": "not-copied"}, Containers=[{"ModelPackageName": package.arn}]
        )
    assert (
        hashlib.sha256(prod.archive(release)["Body"].read()).hexdigest()
        == release.model_data_sha256
    )


def test_the_copy_lies_below_the_targets_prefix_under_its_key_and_says_where_it_comes_from(
    checkout: Checkout, registry_of_dev: Registry, staging: Own
) -> None:
    package = registry_of_dev.approved()
    release = promoted(checkout, *TO_STAGING, "--package", package.version, "--copy")
    assert (release.copied_from, release.account, release.approved_by) == (
        package.arn,
        STAGING,
        f"arn:aws:iam::{ACCOUNT}:root",
    )
    assert release.model_data_url.startswith(
        f"s3://{staging.bucket}/releases/{ACCOUNT}/shoal-mnist-dev/{package.version}/"
    )
    stored = staging.archive(release)
    assert (stored["ServerSideEncryption"], stored["SSEKMSKeyId"]) == (
        "aws:kms",
        staging.key,
    )
    entry = staging.sagemaker.describe_model_package(ModelPackageName=release.model_package_arn)
    metadata = entry["CustomerMetadataProperties"]
    assert entry["ModelApprovalStatus"] == "Approved"
    assert (
        f"Copy of {package.arn}, approved there by {release.approved_by}"
        in entry["ApprovalDescription"]
    )
    assert (metadata["copied_from"], metadata["execution_id"]) == (
        package.arn,
        registry_of_dev.execution,
    )
    assert (metadata["model_data_sha256"], metadata["definition_sha256"]) == (
        release.model_data_sha256,
        release.definition_sha256,
    )
    assert metadata["model_data_etag"] == stored["ETag"].strip('"')
    assert f"s3://{registry_of_dev.bucket}" not in str(entry["InferenceSpecification"]) + str(
        entry["ModelMetrics"]
    )


def test_asking_twice_makes_one_copy(
    checkout: Checkout, registry_of_dev: Registry, staging: Own, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry_of_dev.approved()
    ask = (*TO_STAGING, "--package", package.version, "--copy")
    assert checkout.shoal(*ask) == 0
    before = (staging.entries(), staging.objects())
    (branch,) = (each for each in checkout.branches() if each != "main")
    assert checkout.shoal(*ask) == 0
    checkout.git("branch", "-D", branch)
    first = promoted(checkout, *ask)
    capsys.readouterr()
    for again in (ask, ask[:-1]):
        assert checkout.shoal(*again) == 0
        assert (
            capsys.readouterr().out
            == f"staging pins {first.model_package_arn} already; no commit was made\n"
        )
    assert (staging.entries(), staging.objects()) == before


def test_a_copied_release_is_pinned_further_on_where_it_lies(
    checkout: Checkout, registry_of_dev: Registry, staging: Own, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry_of_dev.approved()
    copied = promoted(checkout, *TO_STAGING, "--package", package.version, "--copy")
    delete_in_dev(registry_of_dev, package)
    assert promoted(checkout, *TO_PROD) == copied
    capsys.readouterr()
    assert checkout.shoal("release", "status", "staging", "prod") == 0
    assert f"ok      registry: Approved, by arn:aws:iam::{STAGING}:root" in capsys.readouterr().out


def test_a_release_that_was_not_copied_to_staging_can_be_copied_to_prod(
    checkout: Checkout, registry_of_dev: Registry, prod: Own
) -> None:
    package = registry_of_dev.approved()
    assert promoted(checkout, *TO_STAGING, "--package", package.version).copied_from is None
    release = promoted(checkout, *TO_PROD, "--copy")
    assert (release.copied_from, release.account) == (package.arn, PROD)


def test_a_copy_whose_registry_says_another_definition_goes_no_further(
    checkout: Checkout, registry_of_dev: Registry, staging: Own, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = promoted(
        checkout, *TO_STAGING, "--package", registry_of_dev.approved().version, "--copy"
    )
    metadata = staging.sagemaker.describe_model_package(ModelPackageName=copied.model_package_arn)[
        "CustomerMetadataProperties"
    ]
    new_metadata = metadata | {"definition_sha256": "0" * 64}
    staging.sagemaker.update_model_package(
        ModelPackageArn=copied.model_package_arn, CustomerMetadataProperties=new_metadata
    )
    assert "hash mismatch: the registry says that it is a copy of" in refusal(
        checkout, capsys, *TO_PROD
    )


def test_an_entry_that_only_says_it_is_the_copy_is_not_approved(
    checkout: Checkout, registry_of_dev: Registry, staging: Own
) -> None:
    package = registry_of_dev.approved()
    first = promoted(checkout, *TO_STAGING, "--package", package.version, "--copy")
    entry = staging.sagemaker.describe_model_package(ModelPackageName=first.model_package_arn)
    (container,) = entry["InferenceSpecification"]["Containers"]
    forged = entry["InferenceSpecification"] | {
        "Containers": [container | {"Environment": {"SAGEMAKER_PROGRAM": "other.py"}}]
    }
    arn = staging.sagemaker.create_model_package(
        ModelPackageGroupName=staging.names.model_package_group,
        ModelApprovalStatus="PendingManualApproval",
        InferenceSpecification=forged,
        CustomerMetadataProperties=entry["CustomerMetadataProperties"],
    )["ModelPackageArn"]
    staging.sagemaker.delete_model_package(ModelPackageName=first.model_package_arn)
    checkout.git("revert", "--no-edit", "HEAD")
    assert (
        promoted(checkout, *TO_STAGING, "--package", package.version, "--copy").model_package_arn
        != arn
    )
    assert entries.describe(staging.target, arn).approval == "PendingManualApproval"


def test_a_copy_that_was_rejected_where_it_lies_is_not_approved_again(
    checkout: Checkout, registry_of_dev: Registry, staging: Own, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry_of_dev.approved()
    copied = promoted(checkout, *TO_STAGING, "--package", package.version, "--copy")
    staging.sagemaker.update_model_package(
        ModelPackageArn=copied.model_package_arn, ModelApprovalStatus="Rejected"
    )
    checkout.git("revert", "--no-edit", "HEAD")
    assert f"its copy {copied.model_package_arn} was rejected in staging" in refusal(
        checkout, capsys, *TO_STAGING, "--package", package.version, "--copy"
    )


def test_a_copy_that_breaks_off_says_what_is_there_and_the_next_call_uses_it(
    checkout: Checkout, registry_of_dev: Registry, prod: Own
) -> None:
    package = registry_of_dev.approved()
    release = promoted(checkout, *TO_STAGING, "--package", package.version)
    lines: list[str] = []
    copying = ReleaseCopy(registry_of_dev.target, prod.target, prod.names, lines.append)
    key = copying.require_deployed()
    for arn in prod.entries():
        prod.sagemaker.delete_model_package(ModelPackageName=arn)
    prod.sagemaker.delete_model_package_group(ModelPackageGroupName=prod.names.model_package_group)
    entry = entries.describe(registry_of_dev.target, package.arn)
    with pytest.raises(
        CopyError,
        match=(
            r"no version was approved there; copied by then, .*/model\.tar\.gz \(version"
            r" .*evaluation\.json"
        ),
    ):
        copying.copy(release, entry, key)
    prod.make_group()
    before = prod.objects()
    assert [prod.entries(), [line.partition(":")[0] for line in lines]] == [
        [],
        ["copied", "copied"],
    ]
    assert copying.copy(release, entry, key).copied_from == package.arn
    assert (prod.objects(), [line.partition(":")[0] for line in lines[2:]]) == (
        before,
        ["there already", "there already", "registered"],
    )


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def push_blob(target: Target, repository: str, content: bytes) -> str:
    """Push a blob as `docker push` does; return its digest."""
    ecr, digest = target.client("ecr"), digest_of(content)
    begun = ecr.initiate_layer_upload(repositoryName=repository)
    which, size = {"repositoryName": repository, "uploadId": begun["uploadId"]}, begun["partSize"]
    for first in range(0, len(content), size):
        part = content[first : first + size]
        ecr.upload_layer_part(
            **which, partFirstByte=first, partLastByte=first + len(part) - 1, layerPartBlob=part
        )
    ecr.complete_layer_upload(**which, layerDigests=[digest])
    return digest


def pull_blob(target: Target, repository: str, digest: str) -> bytes:
    url = target.client("ecr").get_download_url_for_layer(
        repositoryName=repository, layerDigest=digest
    )["downloadUrl"]
    with urllib.request.urlopen(url) as body:
        return bytes(body.read())


@dataclass(frozen=True)
class Image:
    """An image in dev's own ECR: a configuration, a layer of more than one part, and a
    small layer.
    """

    uri: str
    repository: str
    digest: str
    blobs: Mapping[str, bytes]

    @classmethod
    def pushed(cls, dev: Target, index: bool = False) -> Image:
        """Push a new image with the tag v1; with `index`, as part of an index with that tag."""
        ecr, repository = dev.client("ecr"), f"own-{uuid.uuid4().hex[:8]}"
        ecr.create_repository(repositoryName=repository)
        contents = [
            b'{"architecture": "amd64"}',
            secrets.token_bytes(11 * 1024 * 1024),
            secrets.token_bytes(1000),
        ]
        blobs = {push_blob(dev, repository, each): each for each in contents}
        config, *layers = (
            {"mediaType": "application/octet-stream", "digest": digest, "size": len(blobs[digest])}
            for digest in blobs
        )
        manifest = json.dumps(
            {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": layers}
        )
        if index:
            ecr.put_image(repositoryName=repository, imageManifest=manifest)
            entry = {
                "mediaType": OCI_MANIFEST,
                "digest": digest_of(manifest.encode()),
                "size": len(manifest),
            }
            manifest = json.dumps(
                {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
            )
        ecr.put_image(repositoryName=repository, imageManifest=manifest, imageTag="v1")
        uri = f"{dev.account}.dkr.ecr.{dev.region}.amazonaws.com/{repository}:v1"
        return cls(uri, repository, digest_of(manifest.encode()), blobs)

    def pulled(self, target: Target) -> Mapping[str, bytes]:
        return {digest: pull_blob(target, self.repository, digest) for digest in self.blobs}


OCI_MANIFEST, OCI_INDEX = (
    f"application/vnd.oci.image.{kind}.v1+json" for kind in ("manifest", "index")
)


def write_requests(three_accounts: LocalServer) -> int:
    """Return the number of requests so far that have put anything into an ECR."""
    writes = ("InitiateLayerUpload", "UploadLayerPart", "CompleteLayerUpload", "PutImage")
    lines = (three_accounts.state / "requests.jsonl").read_text().splitlines()
    return sum(json.loads(line)["operation"] in writes for line in lines)


def copying(dev: Registry, staging: Own, image: Image, sent: list[str]) -> ImageCopy:
    return ImageCopy(dev.target, staging.target, image.repository, lambda _: None, sent)


@pytest.mark.parametrize("index", [False, True])
def test_an_image_of_ones_own_is_copied_byte_for_byte_and_pinned_by_its_digest(
    checkout: Checkout,
    registry_of_dev: Registry,
    staging: Own,
    three_accounts: LocalServer,
    index: bool,
) -> None:
    image = Image.pushed(registry_of_dev.target, index)
    staging.target.client("ecr").create_repository(repositoryName=image.repository)
    release = promoted(
        checkout,
        *TO_STAGING,
        "--package",
        registry_of_dev.approved(image=image.uri).version,
        "--copy",
    )
    assert release.image_uri == image.uri.replace(ACCOUNT, STAGING).removesuffix(":v1")
    assert release.image_digest == image.digest
    entry = staging.sagemaker.describe_model_package(ModelPackageName=release.model_package_arn)
    assert (
        entry["InferenceSpecification"]["Containers"][0]["Image"]
        == f"{release.image_uri}@{image.digest}"
    )
    assert image.pulled(staging.target) == image.blobs
    before, sent = write_requests(three_accounts), list[str]()
    copying(registry_of_dev, staging, image, sent).copy(image.digest)
    assert before > 0
    assert (write_requests(three_accounts), sent) == (before, [])


def test_a_copy_of_an_image_goes_on_from_the_layers_that_are_there(
    registry_of_dev: Registry, staging: Own
) -> None:
    image = Image.pushed(registry_of_dev.target)
    staging.target.client("ecr").create_repository(repositoryName=image.repository)
    config, large, small = image.blobs
    push_blob(staging.target, image.repository, image.blobs[large])
    sent: list[str] = []
    copying(registry_of_dev, staging, image, sent).copy(image.digest)
    assert sent == [
        f"{STAGING}/{image.repository}@{digest}" for digest in (config, small, image.digest)
    ]


def test_a_layer_that_is_not_what_its_digest_says_is_not_kept(
    registry_of_dev: Registry, staging: Own, three_accounts: LocalServer
) -> None:
    image = Image.pushed(registry_of_dev.target)
    ecr = staging.target.client("ecr")
    ecr.create_repository(repositoryName=image.repository)
    _, large, small = image.blobs
    spoilt = (
        three_accounts.state / "accounts" / ACCOUNT / "ecr/blobs" / large.removeprefix("sha256:")
    )
    spoilt.write_bytes(b"x" + image.blobs[large][1:])
    with pytest.raises(
        CopyError,
        match=(
            rf"hash mismatch: what was read as {ACCOUNT}/{image.repository}@{large} has the digest"
        ),
    ):
        copying(registry_of_dev, staging, image, []).copy(image.digest)
    answer = ecr.batch_check_layer_availability(
        repositoryName=image.repository, layerDigests=[large, small]
    )
    assert answer["layers"] == []
    assert ecr.list_images(repositoryName=image.repository)["imageIds"] == []


def test_an_image_of_ones_own_needs_a_repository_of_its_name_in_the_target(
    checkout: Checkout, registry_of_dev: Registry, staging: Own, capsys: pytest.CaptureFixture[str]
) -> None:
    image, repository = registry_of_dev.own_image()
    before = staging.objects()
    line = refusal(
        checkout,
        capsys,
        *TO_STAGING,
        "--package",
        registry_of_dev.approved(image=image).version,
        "--copy",
    )
    assert (
        f"the ECR of {STAGING} has no repository {repository} for the release's image; nothing was"
        " copied" in line
    )
    assert f"`aws ecr create-repository --repository-name {repository} --region {REGION}`" in line
    assert staging.objects() == before


def test_where_the_target_is_not_deployed_nothing_is_copied(
    local_server: LocalServer, released: Checkout, good: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(released, capsys, *TO_STAGING, "--package", good.version, "--copy")
    assert "staging is not deployed in account 111122223333 in us-east-1" in line
    assert (
        "there is no key alias/shoal-mnist-staging, no bucket"
        " shoal-mnist-staging-artifacts-111122223333-us-east-1, no model" in line
    )
    assert line.endswith("nothing was copied; run `shoal deploy staging` first")


def test_without_credentials_for_the_target_nothing_is_copied(
    local_server: LocalServer, good: Package, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign_code_variable = Checkout.new(tmp_path, local_server.state, staging=STAGING)
    line = refusal(foreign_code_variable, capsys, *TO_STAGING, "--package", good.version, "--copy")
    assert (
        f"the emulator plays account {ACCOUNT} in us-east-1, environment staging is for {STAGING}"
        in line
    )
