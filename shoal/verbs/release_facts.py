"""Compare the block `release` of an environment file with the registry's version that it names.

A person may edit what `shoal promote` wrote. The policies that let another account serve a version
give it neither the report nor the execution, and read-only roles may not decrypt. So a key that
cannot be read is named, and is no disagreement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from config.release import Release
from shoal.verbs.errors import error_code
from shoal.verbs.evaluation import MAX_BYTES, Evaluation
from shoal.verbs.promotion import definition_sha256
from shoal.verbs.registry import APPROVED, UNNAMED, Package
from shoal.verbs.target import Target

_ACCESS_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "403"})
_NOT_FOUND = frozenset(
    {
        "NoSuchKey",
        "NoSuchBucket",
        "404",
        "ResourceNotFound",
        "ResourceNotFoundException",
        "ValidationException",
    }
)


@dataclass(frozen=True)
class Facts:
    """`differences`: one phrase for each key that differs from the pinned value. `unread`: one for
    each key that could not be compared, with the reason.
    """

    differences: tuple[str, ...]
    unread: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f"; {each}" for each in (*self.differences, *self.unread))


class _UnreadError(Exception):
    """A key could not be compared."""


def compare(target: Target, package: Package, release: Release, pipeline_arn: str) -> Facts:
    """Compare every key of `release` with the registry, the execution and the report.

    `pipeline_arn` is of the environment that trained the version. Raises ClientError where a
    service fails otherwise than by refusing.
    """
    values, unread = _registry_values(package), []
    for key, read in (("definition_sha256", _definition_values), ("metrics", _evaluation_values)):
        try:
            values |= read(target, package, release, pipeline_arn)
        except _UnreadError as error:
            unread.append(f"{key} not compared: {error}")
    pinned = release.model_dump()
    differences = [
        f"pinned is {key} {pinned[key]}, not {value}"
        for key, value in values.items()
        if pinned[key] != value
    ]
    return Facts(tuple(differences), tuple(unread))


def _registry_values(package: Package) -> dict[str, Any]:
    """Return the values that the registry's entry has itself.

    An approval without a name is not compared.
    """
    values = {
        "model_package_version": package.version,
        "model_data_url": package.model_data_url,
        "image_uri": package.image_uri,
        "environment": dict(package.environment),
    }
    if package.approval != APPROVED or package.changed_by == UNNAMED:
        return values
    return values | {
        "approved_by": package.changed_by,
        "approved_at": f"{package.changed_at:%Y-%m-%dT%H:%M:%SZ}",
    }


def _definition_values(
    target: Target, package: Package, release: Release, pipeline_arn: str
) -> dict[str, Any]:
    """Return the hash of the definition that the execution ran."""
    arn = f"{pipeline_arn}/execution/{package.metadata.get('execution_id')}"
    client = target.client("sagemaker")
    execution = _read(
        target,
        release,
        arn,
        lambda: client.describe_pipeline_definition_for_execution(PipelineExecutionArn=arn),
    )
    return {"definition_sha256": definition_sha256(str(execution["PipelineDefinition"]))}


def _evaluation_values(
    target: Target, package: Package, release: Release, _pipeline_arn: str
) -> dict[str, Any]:
    """Return what the evaluation's report says."""
    if package.statistics_url is None:
        raise _UnreadError("the registry names no report")
    location, client = urlsplit(package.statistics_url), target.client("s3")
    request = {"Bucket": location.netloc, "Key": location.path.lstrip("/")}
    report = _read(target, release, package.statistics_url, lambda: client.get_object(**request))
    try:
        evaluation = Evaluation.of(report["Body"].read(MAX_BYTES))
    except ValueError as error:
        return {"metrics": f"of {package.statistics_url}, which {error}"}
    return {
        "metrics": dict(evaluation.metrics),
        "model_data_sha256": evaluation.archive_sha256,
        "model_data_composite_sha256": evaluation.archive_composite_sha256,
        "content_sha256": evaluation.content_sha256,
    }


def _read(
    target: Target, release: Release, what: str, read: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    if target.account != release.account:
        raise _UnreadError(f"only credentials of {release.account} may read {what}")
    try:
        return read()
    except ClientError as error:
        if error_code(error) in _ACCESS_DENIED:
            raise _UnreadError(f"these credentials may not read {what}") from error
        if error_code(error) in _NOT_FOUND:
            raise _UnreadError(f"{what} is gone") from error
        raise
