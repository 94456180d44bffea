"""The block `release` of an environment file, and the version of the registry that it names; what
the block says otherwise comes out.

Whoever edits the file by hand edits what `shoal promote` had looked up. The policies that let
another account serve a version give it neither the report nor the execution, and roles that only
look may not decrypt: what cannot be read is named, and is no disagreement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from config.release import Release
from shoal.verbs.errors import error_code
from shoal.verbs.evaluation import Evaluation
from shoal.verbs.promotion import definition_sha256
from shoal.verbs.registry import APPROVED, UNNAMED, Package
from shoal.verbs.target import Target

_REFUSED = frozenset({"AccessDenied", "AccessDeniedException", "403"})
_GONE = frozenset(
    {
        "NoSuchKey",
        "NoSuchBucket",
        "404",
        "ResourceNotFound",
        "ResourceNotFoundException",
        "ValidationException",
    }
)
_VALUE_CHARACTERS = 256
"""Of a value in CustomerMetadataProperties (API reference); a copy's entry keeps no more of what
was said of the original.
"""


@dataclass(frozen=True)
class Facts:
    """`otherwise`: one phrase for each key that is not as pinned; `unread`: keys that could not be
    compared, and why.
    """

    otherwise: tuple[str, ...]
    unread: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f"; {each}" for each in (*self.otherwise, *self.unread))


class _UnreadError(Exception):
    """Why a key could not be compared."""


def compare(target: Target, package: Package, release: Release, pipeline_arn: str) -> Facts:
    """`pipeline_arn`: of the environment that trained it.

    Raises ClientError where a service fails otherwise than by refusing.
    """
    found, unread = _said(package, release), []
    for key, ask in (("definition_sha256", _definition), ("metrics", _measured)):
        try:
            found |= ask(target, package, release, pipeline_arn)
        except _UnreadError as error:
            unread.append(f"{key} not compared: {error}")
    pinned = release.model_dump()
    otherwise = [
        f"pinned is {key} {pinned[key]}, not {value}"
        for key, value in found.items()
        if pinned[key] != value
    ]
    return Facts(tuple(otherwise), tuple(unread))


def _said(package: Package, release: Release) -> dict[str, Any]:
    """What the registry's entry has itself.

    A copy's says who approved the original; who is not named there is not compared.
    """
    same = {
        "model_package_version": package.version,
        "model_data_url": package.model_data_url,
        "image_uri": package.image_uri,
    }
    if release.copied_from or "copied_from" in package.metadata:
        copied = ("copied_from", "approved_by", "approved_at")
        return same | {
            key: _whole(package.metadata.get(key), getattr(release, key)) for key in copied
        }
    if package.approval != APPROVED or package.changed_by == UNNAMED:
        return same
    return same | {
        "approved_by": package.changed_by,
        "approved_at": f"{package.changed_at:%Y-%m-%dT%H:%M:%SZ}",
    }


def _whole(kept: str | None, pinned: str | None) -> str | None:
    """What the entry keeps of a value; all of it where that is its beginning, cut off."""
    is_cut = (
        kept is not None
        and pinned is not None
        and len(kept) == _VALUE_CHARACTERS
        and pinned.startswith(kept)
    )
    return pinned if is_cut else kept


def _definition(
    target: Target, package: Package, release: Release, pipeline_arn: str
) -> dict[str, Any]:
    """Hash of what the execution ran, which a copy's entry carries."""
    if noted := package.metadata.get("definition_sha256"):
        return {"definition_sha256": noted}
    arn = f"{pipeline_arn}/execution/{package.metadata.get('execution_id')}"
    client = target.client("sagemaker")
    ran = _read(
        target,
        release,
        arn,
        lambda: client.describe_pipeline_definition_for_execution(PipelineExecutionArn=arn),
    )
    return {"definition_sha256": definition_sha256(str(ran["PipelineDefinition"]))}


def _measured(
    target: Target, package: Package, release: Release, _pipeline_arn: str
) -> dict[str, Any]:
    """What the evaluation's report says; a release may pin no weights where its report has some by
    now.
    """
    if package.statistics_url is None:
        raise _UnreadError("the registry names no report")
    place, client = urlsplit(package.statistics_url), target.client("s3")
    which = {"Bucket": place.netloc, "Key": place.path.lstrip("/")}
    report = _read(target, release, package.statistics_url, lambda: client.get_object(**which))
    try:
        evaluation = Evaluation.of(report["Body"].read())
    except ValueError as error:
        return {"metrics": f"of {package.statistics_url}, which {error}"}
    weights = {"weights_sha256": evaluation.weights_sha256} if release.weights_sha256 else {}
    return {"metrics": dict(evaluation.metrics), **weights}


def _read(
    target: Target, release: Release, what: str, ask: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    if target.account != release.account:
        raise _UnreadError(f"only credentials of {release.account} may read {what}")
    try:
        return ask()
    except ClientError as error:
        if error_code(error) in _REFUSED:
            raise _UnreadError(f"these credentials may not read {what}") from error
        if error_code(error) in _GONE:
            raise _UnreadError(f"{what} is gone") from error
        raise
