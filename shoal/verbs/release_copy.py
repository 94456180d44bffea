"""Copy a verified release (archive, report, image and registry entry) to the environment that
serves it.

Parts that exist are not copied again, and the entry comes last: a call that failed can simply be
repeated, and a repeated call creates nothing. The source's credentials read, the target's write;
neither needs the other's rights.
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
_MAX_DESCRIPTION_CHARACTERS = 1024
_MAX_VALUE_CHARACTERS = 256
_NOT_FOUND = frozenset(
    {"404", "NoSuchKey", "NoSuchBucket", "NotFoundException", "ValidationException"}
)
_ARCHIVE_KEYS = frozenset({"ModelDataUrl", "ModelDataSource", "ModelDataETag"})
_REGISTRY_KEYS = frozenset({"ModelDataSource", "ModelDataETag", "ImageDigest"})
"""Keys of a container that the registry may set by itself."""


@dataclass(frozen=True)
class Stored:
    """One object of the target's bucket, as it was read back."""

    url: str
    version_id: str
    etag: str
    sha256: str


@dataclass(frozen=True)
class ReleaseCopy:
    """A copy from `source`, where a release is, to `target`, the account of the environment of
    `names`.
    """

    source: Target
    target: Target
    names: Names
    say: Callable[[str], None]
    """Called with a line for each part that was copied or already existed."""

    def require_deployed(self) -> str:
        """Return the ARN of the environment's key.

        Raises NotFoundError unless bucket, key and registry exist. Raises PromotionError for
        another region, or a bucket without versions.
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
        key = _none_if_missing(lambda: self.target.client("kms").describe_key(KeyId=alias))
        resources = {
            f"key {alias}": key,
            f"bucket {bucket}": _none_if_missing(
                lambda: self.target.client("s3").head_bucket(Bucket=bucket)
            ),
            f"model package group {group}": _none_if_missing(
                lambda: self.target.client("sagemaker").describe_model_package_group(
                    ModelPackageGroupName=group
                )
            ),
        }
        if resources[f"bucket {bucket}"] is not None:
            self._require_versions()
        if missing := [name for name, resource in resources.items() if resource is None]:
            message = (
                f"{self._environment} is not deployed in {self.target.description}: there is no"
                f" {', no '.join(missing)}"
            )
            raise NotFoundError(
                f"{message}; nothing was copied; run `shoal deploy {self._environment}` first"
            )
        return str((key or {})["KeyMetadata"]["Arn"])

    def _require_versions(self) -> None:
        """Raise PromotionError if the bucket keeps no versions: nothing in it can be pinned."""
        if (
            self.target.client("s3").get_bucket_versioning(Bucket=self._bucket).get("Status")
            != "Enabled"
        ):
            raise PromotionError(
                f"the bucket {self._bucket} keeps no versions, so nothing in it can be pinned; turn"
                " them on"
            )

    def copy(self, release: Release, package: Package, key_arn: str) -> Release:
        """Copy `release`, which is verified, and return the release that stands for the copy.

        Raises CopyError with what exists by then. Raises PromotionError where the copy is not
        allowed.
        """
        copied: list[str] = []
        try:
            return self._copy_parts(release, package, key_arn, copied)
        except PromotionError:
            raise
        except (*AWS_ERRORS, ShoalError) as error:
            reason = refusal(error)
            remark = (
                f"copied by then, and used by the next call: {', '.join(copied)}"
                if copied
                else "nothing was copied"
            )
            raise CopyError(
                f"the release was not copied to {self._environment}: {reason}; no version was"
                f" approved there; {remark}"
            ) from error

    def _copy_parts(
        self, release: Release, package: Package, key_arn: str, copied: list[str]
    ) -> Release:
        image = self._image(release, copied)
        origin = release.origin
        folder = f"{COPIES}/{origin.split(':')[4]}/{origin.partition('model-package/')[2]}/{release.model_data_sha256}"  # noqa: E501
        archive = self._object(
            lambda: self._read(release.model_data_url, release.model_data_version_id),
            f"{folder}/model.tar.gz",
            release.model_data_sha256,
            key_arn,
            copied,
        )
        report_url, evaluation = str(package.statistics_url), f"{folder}/evaluation.json"
        report = self._object(
            lambda: self._read(report_url, None),
            evaluation,
            self._read(report_url, None).drain(),
            key_arn,
            copied,
        )
        entry = self._entry(release, package, archive, report, image, copied)
        changes: dict[str, Any] = {
            "model_package_arn": entry.arn,
            "model_package_version": entry.version,
            "image_uri": image,
            "model_data_url": archive.url,
            "model_data_version_id": archive.version_id,
            "copied_from": origin,
        }
        return Release(**release.model_dump() | changes)

    def _image(self, release: Release, copied: list[str]) -> str:
        """Return the URI to register: AWS's own image, or the copy in the target's ECR."""
        host, _, path = release.image_uri.partition("/")
        account, _, rest = host.partition(".")
        if account != self.source.account or account == self.target.account:
            return release.image_uri
        repository = path.partition(":")[0]
        ImageCopy(self.source, self.target, repository, self.say, copied).copy(release.image_digest)
        return f"{self.target.account}.{rest}/{repository}"

    def _object(
        self,
        read: Callable[[], _HashingReader],
        key: str,
        expected: str,
        key_arn: str,
        copied: list[str],
    ) -> Stored:
        """Return the object `key` with the sha256 `expected`; stream it from `read` if it does not
        exist.
        """
        existing = self._read_back(key)
        if existing is not None and existing.sha256 == expected:
            return self._record("there already", existing, copied)
        body = read()
        encryption = {
            "ServerSideEncryption": "aws:kms",
            "SSEKMSKeyId": key_arn,
            "ExpectedBucketOwner": self.target.account,
        }
        self.target.client("s3").upload_fileobj(body, self._bucket, key, ExtraArgs=encryption)
        stored = self._read_back(key)
        if stored is None or {stored.sha256, body.sha256} != {expected}:
            self._delete(key, stored)
            mismatch = (
                f"{body.sha256} when it was read, {stored.sha256 if stored else 'none'} when it was"
                " read back"
            )
            raise CopyError(
                f"hash mismatch: the sha256 of {key} is {expected}; it was {mismatch}, and was"
                " removed"
            )
        return self._record("copied", stored, copied)

    def _read(self, url: str, version_id: str | None) -> _HashingReader:
        """Return a reader of an object of the source."""
        location = urlsplit(url)
        version_argument = {"VersionId": version_id} if version_id else {}
        return _HashingReader(
            self.source.client("s3").get_object(
                Bucket=location.netloc, Key=location.path.lstrip("/"), **version_argument
            )["Body"]
        )

    def _read_back(self, key: str) -> Stored | None:
        """Read the newest version of `key` as a whole; return None if there is none."""
        answer = _none_if_missing(
            lambda: self.target.client("s3").get_object(
                Bucket=self._bucket, Key=key, ExpectedBucketOwner=self.target.account
            )
        )
        if answer is None:
            return None
        return Stored(
            f"s3://{self._bucket}/{key}",
            str(answer["VersionId"]),
            str(answer["ETag"]).strip('"'),
            _HashingReader(answer["Body"]).drain(),
        )

    def _delete(self, key: str, stored: Stored | None) -> None:
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
        copied: list[str],
    ) -> Package:
        """Return the approved entry of the copy in the target's registry, existing or new."""
        # A tag of the target's own repository may be another image's, so there the digest is
        # registered.
        pinned_image = None if image == release.image_uri else f"{image}@{release.image_digest}"
        specification = self._specification(package, archive, pinned_image)
        entry = self._existing_entry(release, specification)
        if entry is None:
            entry = self._register(release, package, archive, report, specification)
            copied.append(entry.arn)
            self.say(f"registered: {entry.arn}")
        if entry.approval == REJECTED:
            raise PromotionError(
                f"its copy {entry.arn} was rejected in {self._environment}; approve it there"
            )
        if entry.approval != APPROVED:
            comment = (
                f"Copy of {release.origin}, approved there by {release.approved_by} at"
                f" {release.approved_at}"
            )
            entry = registry.approve(self.target, entry.arn, comment[:_MAX_DESCRIPTION_CHARACTERS])
        return entry

    def _specification(
        self, package: Package, archive: Stored, image: str | None
    ) -> dict[str, Any]:
        """Return the source entry's specification, with the copy's archive and perhaps another
        image.
        """
        description = self.source.client("sagemaker").describe_model_package(
            ModelPackageName=package.arn
        )
        specification: dict[str, Any] = description["InferenceSpecification"]
        (container,) = specification["Containers"]
        return specification | {
            "Containers": [
                _without(container, _ARCHIVE_KEYS)
                | ({"Image": image} if image else {})
                | {"ModelDataUrl": archive.url}
            ]
        }

    def _existing_entry(self, release: Release, specification: dict[str, Any]) -> Package | None:
        """Return the entry that claims to be this copy and serves the same.

        The claim alone proves nothing: anybody who may register can make it.
        """
        client = self.target.client("sagemaker")
        for arn, _ in registry.versions(self.target, self.names.model_package_group):
            description = client.describe_model_package(ModelPackageName=arn)
            metadata = description.get("CustomerMetadataProperties", {})
            is_same_release = (metadata.get("copied_from"), metadata.get("model_data_sha256")) == (
                release.origin,
                release.model_data_sha256,
            )
            if is_same_release and _effective(
                description.get("InferenceSpecification", {})
            ) == _effective(specification):
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
        """Register a pending version. Its approval gives the reason, which CreateModelPackage
        cannot.
        """
        answer = self.target.client("sagemaker").create_model_package(
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
        return registry.describe(self.target, answer["ModelPackageArn"])

    def _record(self, what: str, stored: Stored, copied: list[str]) -> Stored:
        copied.append(f"{stored.url} (version {stored.version_id})")
        self.say(f"{what}: {stored.url} (version {stored.version_id}, sha256 {stored.sha256})")
        return stored

    @property
    def _bucket(self) -> str:
        return self.names.bucket("artifacts")

    @property
    def _environment(self) -> str:
        return self.names.environment.name


class _HashingReader:
    """A body that is read once, from beginning to end, and hashed on the way."""

    def __init__(self, body: Any) -> None:
        self._body, self._digest = body, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block: bytes = self._body.read(size if size >= 0 else None)
        self._digest.update(block)
        return block

    def drain(self) -> str:
        """Read the rest and return the hash of everything."""
        while self.read(_BLOCK_BYTES):
            pass
        return self.sha256

    @property
    def sha256(self) -> str:
        """Return the hash of what was read so far."""
        return self._digest.hexdigest()


def _metadata(release: Release, package: Package, archive: Stored) -> dict[str, str]:
    """Return the copy's origin, in values of at most 256 characters (API reference,
    CustomerMetadataProperties).
    """
    metadata = {
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
    return {key: value[:_MAX_VALUE_CHARACTERS] for key, value in metadata.items()}


def _effective(specification: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an entry's specification that decides what runs."""
    return specification | {
        "Containers": [
            _without(each, _REGISTRY_KEYS) for each in specification.get("Containers", [])
        ]
    }


def _without(container: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in container.items() if key not in keys}


def _none_if_missing(read: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """Return None if the service says that the resource does not exist."""
    try:
        return read()
    except ClientError as error:
        if error_code(error) in _NOT_FOUND:
            return None
        raise
