"""The model registry: a group's versions in, frozen values out; and a person's approval of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from shoal.verbs.errors import NotFoundError, NothingToPromoteError, error_code
from shoal.verbs.target import Target

APPROVED, REJECTED = "Approved", "Rejected"
UNNAMED = "somebody whom the registry does not name"
_NO_SUCH = frozenset({"ValidationException", "ResourceNotFound", "ResourceNotFoundException"})


@dataclass(frozen=True)
class Package:
    """One version of a group, as DescribeModelPackage tells it."""

    arn: str
    version: int
    status: str
    approval: str
    image_uri: str
    model_data_url: str
    changed_by: str
    """ARN of whoever changed its entry last: of an approved version, the approver."""
    changed_at: datetime
    """When, in UTC."""
    image_digest: str | None = None
    """As the registry noted it; it need not."""
    model_data_etag: str | None = None
    """Of the S3 object when it was registered, where the registry noted it."""
    statistics_url: str | None = None
    """The evaluation's report in S3."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The container's variables."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the pipeline said of it: execution_id, code_uri, training_job_name; and who copied it:
    copied_from and hashes.
    """

    @property
    def origin(self) -> str:
        """ARN of the version that was trained and judged: this one, or the one that this says it is
        a copy of.
        """
        return self.metadata.get("copied_from", self.arn)


def describe(target: Target, arn: str) -> Package:
    """The version with this ARN.

    Raises NotFoundError when the registry has none, or it is not one model in one container.
    """
    try:
        found = target.client("sagemaker").describe_model_package(ModelPackageName=arn)
    except ClientError as error:
        if error_code(error) in _NO_SUCH:
            raise NotFoundError(
                f"there is no model package {arn} in {target.description}"
            ) from error
        raise
    return _package(found)


def versions(target: Target, group: str) -> list[tuple[str, str]]:
    """ARN and approval status of every version of the group, newest first; none when there is no
    such group.
    """
    request = {"ModelPackageGroupName": group, "SortBy": "CreationTime", "SortOrder": "Descending"}
    pages = target.client("sagemaker").get_paginator("list_model_packages").paginate(**request)
    found = [
        (str(each["ModelPackageArn"]), str(each["ModelApprovalStatus"]))
        for page in pages
        for each in page["ModelPackageSummaryList"]
    ]
    return sorted(found, key=lambda each: version_of(each[0]), reverse=True)


def newest_approved(target: Target, group: str, arguments: str) -> Package:
    """The approved version with the highest number.

    Raises NothingToPromoteError; `arguments` name the environment on a command line.
    """
    known = versions(target, group)
    for arn, approval in known:
        if approval == APPROVED:
            return describe(target, arn)
    if not known:
        raise NothingToPromoteError(
            f"the registry has no version of {group} in {target.description}; train one: `shoal run"
            f" {arguments}`"
        )
    arn, approval = known[0]
    message = f"no version of {group} is approved; the newest, {version_of(arn)}, is {approval}"
    raise NothingToPromoteError(
        f"{message}; whoever may judge it runs `shoal approve {arguments} {version_of(arn)}`"
    )


def approve(target: Target, arn: str, comment: str | None) -> Package:
    """Sets the version's status to Approved, as whoever's credentials these are, and returns it.

    Raises NotFoundError.
    """
    describe(target, arn)
    said = {"ApprovalDescription": comment} if comment else {}
    target.client("sagemaker").update_model_package(
        ModelPackageArn=arn, ModelApprovalStatus=APPROVED, **said
    )
    return describe(target, arn)


def version_of(arn: str) -> int:
    """The number at the end of a version's ARN."""
    return int(arn.rpartition("/")[2])


def _package(found: Mapping[str, Any]) -> Package:
    arn, containers = (
        str(found["ModelPackageArn"]),
        found.get("InferenceSpecification", {}).get("Containers", []),
    )
    if len(containers) != 1 or "ModelDataUrl" not in containers[0] or "Image" not in containers[0]:
        raise NotFoundError(
            f"{arn} is not one container with one archive of model data; only such versions can be"
            " promoted"
        )
    container = containers[0]
    image, _, digest = str(container["Image"]).partition("@")
    changed_by = found.get("LastModifiedBy") or found.get("CreatedBy") or {}
    changed_at = found.get("LastModifiedTime") or found["CreationTime"]
    return Package(
        arn=arn,
        version=version_of(arn),
        status=str(found["ModelPackageStatus"]),
        approval=str(found["ModelApprovalStatus"]),
        image_uri=image,
        model_data_url=str(container["ModelDataUrl"]),
        image_digest=digest or container.get("ImageDigest"),
        model_data_etag=container.get("ModelDataETag"),
        statistics_url=found.get("ModelMetrics", {})
        .get("ModelQuality", {})
        .get("Statistics", {})
        .get("S3Uri"),
        environment=container.get("Environment", {}),
        metadata=found.get("CustomerMetadataProperties", {}),
        changed_by=changed_by.get("IamIdentity", {}).get("Arn")
        or changed_by.get("UserProfileName")
        or UNNAMED,
        changed_at=changed_at.astimezone(UTC),
    )
