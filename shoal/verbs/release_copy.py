"""A verified release goes in; the same comes out, made of an archive, a report, an image and a
registry entry of the environment that serves it.

Each part is made only where it is not there already, and the entry comes after what it names: a
call that failed is simply repeated, and a call that is repeated makes nothing. Reading is done with
the source's credentials, writing with the target's; neither needs the other's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from config.names import Names
from config.release import COPIES, Release
from shoal.verbs import registry
from shoal.verbs.errors import (
    AWS_ERRORS,
    CopyError,
    NotFoundError,
    PromotionError,
    ShoalError,
    error_code,
    refusal,
)
from shoal.verbs.image_copy import ImageCopy
from shoal.verbs.registry import APPROVED, REJECTED, Package
from shoal.verbs.target import Target

_BLOCK_BYTES = 1024 * 1024
_DESCRIPTION_CHARACTERS = 1024
_VALUE_CHARACTERS = 256
_ABSENT = frozenset(
    {"404", "NoSuchKey", "NoSuchBucket", "NotFoundException", "ValidationException"}
)
_OF_AN_ARCHIVE = frozenset({"ModelDataUrl", "ModelDataSource", "ModelDataETag"})
_NOTED = frozenset({"ModelDataSource", "ModelDataETag", "ImageDigest"})
"""What the registry may note by itself of a container."""


@dataclass(frozen=True)
class Stored:
    """One object of the target's bucket, as it was read back."""

    url: str
    version_id: str
    etag: str
    sha256: str


@dataclass(frozen=True)
class ReleaseCopy:
    """From `source`, where a release is, to `target`, the account of the environment that `names`
    names.
    """

    source: Target
    target: Target
    names: Names
    say: Callable[[str], None]
    """Is told of each part that was made, or found."""

    def require_deployed(self) -> str:
        """ARN of the environment's key.

        Raises NotFoundError unless its bucket, key and registry are there, PromotionError
        elsewhere.
        """
        if self.source.region != self.target.region:
            regions = (
                f"the model and its image are in {self.source.region}, {self._environment} is in"
                f" {self.target.region}"
            )
            raise PromotionError(
                f"{regions}; a copy stays in its region, because SageMaker serves images of its own"
                " region only"
            )
        alias, bucket, group = (
            f"alias/{self.names.prefix}",
            self._bucket,
            self.names.model_package_group,
        )
        key = _unless_absent(lambda: self.target.client("kms").describe_key(KeyId=alias))
        found = {
            f"key {alias}": key,
            f"bucket {bucket}": _unless_absent(
                lambda: self.target.client("s3").head_bucket(Bucket=bucket)
            ),
            f"model package group {group}": _unless_absent(
                lambda: self.target.client("sagemaker").describe_model_package_group(
                    ModelPackageGroupName=group
                )
            ),
        }
        if found[f"bucket {bucket}"] is not None:
            self._require_versions()
        if missing := [what for what, there in found.items() if there is None]:
            message = (
                f"{self._environment} is not deployed in {self.target.description}: there is no"
                f" {', no '.join(missing)}"
            )
            raise NotFoundError(
                f"{message}; nothing was copied; run `shoal deploy {self._environment}` first"
            )
        return str((key or {})["KeyMetadata"]["Arn"])

    def _require_versions(self) -> None:
        """Raises PromotionError for a bucket in which nothing can be pinned."""
        if (
            self.target.client("s3").get_bucket_versioning(Bucket=self._bucket).get("Status")
            != "Enabled"
        ):
            raise PromotionError(
                f"the bucket {self._bucket} keeps no versions, so nothing in it can be pinned; turn"
                " them on"
            )

    def make(self, release: Release, package: Package, key_arn: str) -> Release:
        """Of `release`, verified, and its entry.

        Raises CopyError, which says what is there by then; PromotionError where it may not be.
        """
        made: list[str] = []
        try:
            return self._make(release, package, key_arn, made)
        except PromotionError:
            raise
        except (*AWS_ERRORS, ShoalError) as error:
            reason = refusal(error)
            there = (
                f"copied by then, and used by the next call: {', '.join(made)}"
                if made
                else "nothing was copied"
            )
            raise CopyError(
                f"the release was not copied to {self._environment}: {reason}; no version was"
                f" approved there; {there}"
            ) from error

    def _make(self, release: Release, package: Package, key_arn: str, made: list[str]) -> Release:
        image = self._image(release, made)
        origin = release.origin
        folder = f"{COPIES}/{origin.split(':')[4]}/{origin.partition('model-package/')[2]}/{release.model_data_sha256}"  # noqa: E501
        archive = self._object(
            lambda: self._read(release.model_data_url, release.model_data_version_id),
            f"{folder}/model.tar.gz",
            release.model_data_sha256,
            key_arn,
            made,
        )
        told, evaluation = str(package.statistics_url), f"{folder}/evaluation.json"
        report = self._object(
            lambda: self._read(told, None),
            evaluation,
            self._read(told, None).drain(),
            key_arn,
            made,
        )
        entry = self._entry(release, package, archive, report, image, made)
        changes: dict[str, Any] = {
            "model_package_arn": entry.arn,
            "model_package_version": entry.version,
            "image_uri": image,
            "model_data_url": archive.url,
            "model_data_version_id": archive.version_id,
            "copied_from": origin,
        }
        return Release(**release.model_dump() | changes)

    def _image(self, release: Release, made: list[str]) -> str:
        """The image to register: AWS's as it is; one of the source's account as it is in the
        target's ECR then, by name and digest.
        """
        host, _, path = release.image_uri.partition("/")
        account, _, rest = host.partition(".")
        if account != self.source.account or account == self.target.account:
            return release.image_uri
        repository = path.partition(":")[0]
        ImageCopy(self.source, self.target, repository, self.say, made).make(release.image_digest)
        return f"{self.target.account}.{rest}/{repository}"

    def _object(
        self, read: Callable[[], _Hashed], key: str, expected: str, key_arn: str, made: list[str]
    ) -> Stored:
        """The object below `key`, whose sha256 is `expected`: as it is there already, or streamed
        there from `read` and read back.
        """
        there = self._stored(key)
        if there is not None and there.sha256 == expected:
            return self._told("there already", there, made)
        body = read()
        encrypted = {
            "ServerSideEncryption": "aws:kms",
            "SSEKMSKeyId": key_arn,
            "ExpectedBucketOwner": self.target.account,
        }
        self.target.client("s3").upload_fileobj(body, self._bucket, key, ExtraArgs=encrypted)
        stored = self._stored(key)
        if stored is None or {stored.sha256, body.sha256} != {expected}:
            self._take_back(key, stored)
            found = (
                f"{body.sha256} when it was read, {stored.sha256 if stored else 'none'} when it was"
                " read back"
            )
            raise CopyError(
                f"hash mismatch: the sha256 of {key} is {expected}; it was {found}, and was removed"
            )
        return self._told("copied", stored, made)

    def _read(self, url: str, version_id: str | None) -> _Hashed:
        """An object of the source, from its beginning."""
        place = urlsplit(url)
        which = {"VersionId": version_id} if version_id else {}
        return _Hashed(
            self.source.client("s3").get_object(
                Bucket=place.netloc, Key=place.path.lstrip("/"), **which
            )["Body"]
        )

    def _stored(self, key: str) -> Stored | None:
        """The newest version below `key`, read whole."""
        found = _unless_absent(
            lambda: self.target.client("s3").get_object(
                Bucket=self._bucket, Key=key, ExpectedBucketOwner=self.target.account
            )
        )
        if found is None:
            return None
        return Stored(
            f"s3://{self._bucket}/{key}",
            str(found["VersionId"]),
            str(found["ETag"]).strip('"'),
            _Hashed(found["Body"]).drain(),
        )

    def _take_back(self, key: str, stored: Stored | None) -> None:
        if stored is not None:
            self.target.client("s3").delete_object(
                Bucket=self._bucket, Key=key, VersionId=stored.version_id
            )

    def _entry(
        self,
        release: Release,
        package: Package,
        archive: Stored,
        report: Stored,
        image: str,
        made: list[str],
    ) -> Package:
        """The approved version of the environment's own registry that stands for the copy: the one
        that is there, or a new one.
        """
        # A tag of the target's own repository may be another image's, so there the digest is
        # registered.
        own = None if image == release.image_uri else f"{image}@{release.image_digest}"
        specification = self._specification(package, archive, own)
        entry = self._registered(release, specification)
        if entry is None:
            entry = self._register(release, package, archive, report, specification)
            made.append(entry.arn)
            self.say(f"registered: {entry.arn}")
        if entry.approval == REJECTED:
            raise PromotionError(
                f"its copy {entry.arn} was rejected in {self._environment}; whoever may judge it"
                " approves it there"
            )
        if entry.approval != APPROVED:
            said = (
                f"Copy of {release.origin}, approved there by {release.approved_by} at"
                f" {release.approved_at}"
            )
            entry = registry.approve(self.target, entry.arn, said[:_DESCRIPTION_CHARACTERS])
        return entry

    def _specification(
        self, package: Package, archive: Stored, image: str | None
    ) -> dict[str, Any]:
        """How the source's entry is served, with the copy's archive, and with `image` if it is
        another.
        """
        described = self.source.client("sagemaker").describe_model_package(
            ModelPackageName=package.arn
        )
        found: dict[str, Any] = described["InferenceSpecification"]
        (container,) = found["Containers"]
        return found | {
            "Containers": [
                _without(container, _OF_AN_ARCHIVE)
                | ({"Image": image} if image else {})
                | {"ModelDataUrl": archive.url}
            ]
        }

    def _registered(self, release: Release, specification: dict[str, Any]) -> Package | None:
        """The entry that says it is this copy and is served likewise; whoever may register can say
        the first of anything.
        """
        client = self.target.client("sagemaker")
        for arn, _ in registry.versions(self.target, self.names.model_package_group):
            found = client.describe_model_package(ModelPackageName=arn)
            said = found.get("CustomerMetadataProperties", {})
            is_this = (said.get("copied_from"), said.get("model_data_sha256")) == (
                release.origin,
                release.model_data_sha256,
            )
            if is_this and _served(found.get("InferenceSpecification", {})) == _served(
                specification
            ):
                return registry.describe(self.target, arn)
        return None

    def _register(
        self,
        release: Release,
        package: Package,
        archive: Stored,
        report: Stored,
        specification: dict[str, Any],
    ) -> Package:
        """Pending: who approves it says why, and CreateModelPackage has no word for that."""
        made = self.target.client("sagemaker").create_model_package(
            ModelPackageGroupName=self.names.model_package_group,
            ModelPackageDescription=f"Copy of {release.origin}",
            ModelApprovalStatus="PendingManualApproval",
            InferenceSpecification=specification,
            ModelMetrics={
                "ModelQuality": {
                    "Statistics": {"ContentType": "application/json", "S3Uri": report.url}
                }
            },
            CustomerMetadataProperties=_metadata(release, package, archive),
        )
        return registry.describe(self.target, made["ModelPackageArn"])

    def _told(self, what: str, stored: Stored, made: list[str]) -> Stored:
        made.append(f"{stored.url} (version {stored.version_id})")
        self.say(f"{what}: {stored.url} (version {stored.version_id}, sha256 {stored.sha256})")
        return stored

    @property
    def _bucket(self) -> str:
        return self.names.bucket("artifacts")

    @property
    def _environment(self) -> str:
        return self.names.environment.name


class _Hashed:
    """A body that is read once, from beginning to end, and hashed on the way."""

    def __init__(self, body: Any) -> None:
        self._body, self._digest = body, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block: bytes = self._body.read(size if size >= 0 else None)
        self._digest.update(block)
        return block

    def drain(self) -> str:
        """The hash of all of it."""
        while self.read(_BLOCK_BYTES):
            pass
        return self.sha256

    @property
    def sha256(self) -> str:
        """Of what was read by now."""
        return self._digest.hexdigest()


def _metadata(release: Release, package: Package, archive: Stored) -> dict[str, str]:
    """Where the copy comes from; values have at most 256 characters (API reference,
    CustomerMetadataProperties).
    """
    said = {
        **package.metadata,
        "copied_from": release.origin,
        "model_data_sha256": release.model_data_sha256,
        "model_data_version_id": archive.version_id,
        "model_data_etag": archive.etag,
        "definition_sha256": release.definition_sha256,
        "code_commit": release.code_commit,
        "approved_by": release.approved_by,
        "approved_at": release.approved_at,
    }
    return {key: value[:_VALUE_CHARACTERS] for key, value in said.items()}


def _served(specification: dict[str, Any]) -> dict[str, Any]:
    """Of an entry's specification, what decides on what is run."""
    return specification | {
        "Containers": [_without(each, _NOTED) for each in specification.get("Containers", [])]
    }


def _without(container: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in container.items() if key not in keys}


def _unless_absent(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """None where the service says that there is no such thing."""
    try:
        return ask()
    except ClientError as error:
        if error_code(error) in _ABSENT:
            return None
        raise
