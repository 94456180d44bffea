"""The model registry: read the versions of a group, and approve one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from botocore.exceptions import ClientError

from shoal.aws.model_archive import model_data_of
from shoal.aws.target import Target, items
from shoal.errors import NotFoundError, NothingToPromoteError, error_code

APPROVED, REJECTED = "Approved", "Rejected"
UNNAMED = "somebody whom the registry does not name"
_NOT_FOUND = frozenset({"ValidationException", "ResourceNotFound", "ResourceNotFoundException"})


@dataclass(frozen=True)
class Package:
    """One version of a group, as DescribeModelPackage describes it."""

    arn: str
    version: int
    status: str
    approval: str
    image_uri: str
    model_data_url: str
    changed_by: str
    """ARN of who changed the entry last; for an approved version, the approver."""
    changed_at: datetime
    """In UTC."""
    image_digest: str | None = None
    """Optional: the registry notes it for some images."""
    statistics_url: str | None = None
    """The evaluation's report in S3."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The container's environment variables."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the pipeline wrote: execution_id, code_uri, training_job_name."""
    comment: str | None = None
    """The one that the registry keeps, of the last judgement that had any."""


def describe(target: Target, arn: str) -> Package:
    """Return the version; raise NotFoundError for none, or not one model in one container."""
    try:
        description = target.client("sagemaker").describe_model_package(ModelPackageName=arn)
    except ClientError as error:
        if error_code(error) in _NOT_FOUND:
            raise NotFoundError(
                f"there is no model package {arn} in {target.description}"
            ) from error
        raise
    containers = description.get("InferenceSpecification", {}).get("Containers", [])
    container = containers[0] if len(containers) == 1 else {}
    url = model_data_of(container)
    if url is None or "Image" not in container:
        raise NotFoundError(
            f"{arn} is not one container with one archive of model data; only such versions can be"
            " promoted"
        )
    image, _, digest = str(container["Image"]).partition("@")
    changed_by = description.get("LastModifiedBy") or description.get("CreatedBy") or {}
    changed_at = description.get("LastModifiedTime") or description["CreationTime"]
    quality = description.get("ModelMetrics", {}).get("ModelQuality", {})
    identity = changed_by.get("IamIdentity", {}).get("Arn") or changed_by.get("UserProfileName")
    return Package(
        arn=arn,
        version=version_of(arn),
        status=str(description["ModelPackageStatus"]),
        approval=str(description["ModelApprovalStatus"]),
        image_uri=image,
        model_data_url=url,
        image_digest=digest or container.get("ImageDigest"),
        statistics_url=quality.get("Statistics", {}).get("S3Uri"),
        environment=container.get("Environment", {}),
        metadata=description.get("CustomerMetadataProperties", {}),
        changed_by=identity or UNNAMED,
        changed_at=changed_at.astimezone(UTC),
        comment=description.get("ApprovalDescription"),
    )


def versions(target: Target, group: str) -> list[tuple[str, str]]:
    """Return ARN and approval of the group's versions, newest first; none without group."""
    request = {"ModelPackageGroupName": group, "SortBy": "CreationTime", "SortOrder": "Descending"}
    entries = [
        (str(each["ModelPackageArn"]), str(each["ModelApprovalStatus"]))
        for each in items(target.client("sagemaker"), "list_model_packages", **request)
    ]
    return sorted(entries, key=lambda each: version_of(each[0]), reverse=True)


def newest_approved(target: Target, group: str, arguments: str) -> Package:
    """Return the newest approved version; `arguments` name the environment in what it raises."""
    entries = versions(target, group)
    for arn, approval in entries:
        if approval == APPROVED:
            return describe(target, arn)
    if not entries:
        raise NothingToPromoteError(
            f"the registry has no version of {group} in {target.description}; train one: `shoal run"
            f" {arguments}`"
        )
    newest, approval = version_of(entries[0][0]), entries[0][1]
    raise NothingToPromoteError(
        f"no version of {group} is approved; the newest, {newest}, is {approval}; an approver runs"
        f" `shoal release approve {arguments} {newest}`"
    )


def approve(target: Target, arn: str, comment: str | None) -> Package:
    """Approve the version as the current user, and return it. Raises NotFoundError."""
    describe(target, arn)
    description = {"ApprovalDescription": comment} if comment else {}
    target.client("sagemaker").update_model_package(
        ModelPackageArn=arn, ModelApprovalStatus=APPROVED, **description
    )
    return describe(target, arn)


def version_of(arn: str) -> int:
    """Return the number at the end of a version's ARN."""
    return int(arn.rpartition("/")[2])
