"""Compare what an environment pins with what exists: one answer per question."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from config.release import Release
from shoal.verbs import release_facts
from shoal.verbs.deployed_stack import status_of_stack
from shoal.verbs.errors import AWS_ERRORS, ShoalError, error_code, refusal
from shoal.verbs.registry import APPROVED, describe
from shoal.verbs.serving import LiveEndpoint, failure_note, live_endpoint
from shoal.verbs.target import Target

_IN_SERVICE = "InService"
_NO_OBJECT = "404"


@dataclass(frozen=True)
class Answer:
    """`agrees` is None where nothing could be asked: that is neither agreement nor disagreement."""

    question: str
    says: str
    agrees: bool | None = True


@dataclass(frozen=True)
class ReleaseTargets:
    """Where to ask. Opening a target may fail, for want of credentials."""

    registry: Callable[[], Target]
    """The account whose registry has the release: where it was trained."""
    serving: Callable[[], Target]
    """The environment's own account."""
    environment: str
    """The environment's name, for advice."""
    serving_stack: str
    """Name of the stack that owns the endpoint."""
    pipeline_arn: str
    """The pipeline whose executions trained the versions of the registry."""
    archive_url: str
    """Where the environment keeps its own copy of the pinned archive."""
    serves: bool
    """Whether the environment's settings ask for that stack."""


def compare(release: Release | None, targets: ReleaseTargets, endpoint: str) -> Iterator[Answer]:
    """Compare registry, archive and image with the pins, and what `endpoint` serves.

    Changes nothing.
    """
    if release is not None:
        yield _answer(
            "registry", lambda: _registry(targets.registry(), release, targets.pipeline_arn)
        )
        yield _answer("model data", lambda: _model_data(targets.serving(), release, targets))
        yield _answer("image", lambda: _image(targets.serving(), release))
    yield _answer("live", lambda: _serving(targets.serving(), release, endpoint, targets))


def _answer(question: str, look_up: Callable[[], tuple[str, bool]]) -> Answer:
    try:
        return Answer(question, *look_up())
    except AWS_ERRORS as error:
        return Answer(question, f"not known: {refusal(error)}", None)
    except ShoalError as error:
        return Answer(question, f"not known: {error}", None)


def _registry(target: Target, release: Release, pipeline_arn: str) -> tuple[str, bool]:
    """Return whether the version is approved and equals the block in the file."""
    package = describe(target, release.model_package_arn)
    facts = release_facts.compare(target, package, release, pipeline_arn)
    return (
        f"{package.approval}, by {package.changed_by}{facts}",
        package.approval == APPROVED and not facts.differences,
    )


def _model_data(target: Target, release: Release, targets: ReleaseTargets) -> tuple[str, bool]:
    """Return whether the environment's own copy has the pinned hash, as S3 computed it.

    A deployment makes it, so it is missing only if the serving stack exists. Roles that only look
    may not decrypt, and then S3 does not tell the hash (API reference, HeadObject, ChecksumMode).
    """
    url = targets.archive_url
    location, s3 = urlsplit(url), target.client("s3")
    request = {"Bucket": location.netloc, "Key": location.path.lstrip("/")}
    try:
        size = s3.head_object(**request)["ContentLength"]
    except ClientError as error:
        if error_code(error) != _NO_OBJECT:
            raise
        if status_of_stack(target, targets.serving_stack):
            return f"{url} is not there", False
        return f"a deployment will bring it to {url}", True
    try:
        head = s3.head_object(**request, ChecksumMode="ENABLED")
    except ClientError as error:
        return f"{url} is there; its sha256 not compared: {refusal(error)}", True
    checksum = head.get("ChecksumSHA256", "")
    # What was copied in parts has the composite of its parts, `<base64>-<parts>`.
    in_parts = "-" in checksum
    actual = checksum if in_parts else base64.b64decode(checksum).hex()
    pinned = release.model_data_composite_sha256 if in_parts else release.model_data_sha256
    kind = "composite sha256" if in_parts else "sha256"
    if actual != pinned:
        return f"the {kind} of {url} is {actual}, pinned is {pinned}", False
    return f"the own copy has the pinned {kind}, {size} bytes", True


def _image(target: Target, release: Release) -> tuple[str, bool]:
    host, _, path = release.image_uri.partition("/")
    registry, region = host.split(".")[0], host.split(".")[3]
    ecr = target.in_region(region).client("ecr")
    repository, _, tag = path.partition(":")
    by_tag = [{"imageTag": tag}] if tag else []
    request = {
        "registryId": registry,
        "repositoryName": repository,
        "imageIds": [*by_tag, {"imageDigest": release.image_digest}],
    }
    try:
        digests = {
            str(each["imageId"]["imageDigest"]) for each in ecr.batch_get_image(**request)["images"]
        }
    except ecr.exceptions.RepositoryNotFoundException:
        digests = set()
    if release.image_digest not in digests:
        return f"ECR has no {release.image_uri}@{release.image_digest}", False
    other_digests = ", ".join(sorted(digests - {release.image_digest}))
    return "the pinned digest is there" + (
        f"; the tag {tag} was moved to {other_digests}, so a deployment may be rolled back"
        if other_digests
        else ""
    ), True


def _serving(
    target: Target, release: Release | None, endpoint: str, targets: ReleaseTargets
) -> tuple[str, bool]:
    """Return what the endpoint serves, and whether that is as pinned.

    A missing endpoint is a disagreement only if its stack exists.
    """
    served = live_endpoint(target, endpoint)
    if served is None:
        status = status_of_stack(target, targets.serving_stack)
        return (
            f"no endpoint {endpoint}"
            + (f", and its stack {targets.serving_stack} is {status}" if status else ""),
            status is None,
        )
    remark = _remark(served, release, targets)
    as_pinned = (
        served.status == _IN_SERVICE
        and served.archives == ((targets.archive_url,) if release else ())
        and not remark
    )
    failure = failure_note(served.failure, as_pinned=as_pinned)
    return "; ".join(filter(None, (str(served), remark, failure))), as_pinned


def _remark(served: LiveEndpoint, release: Release | None, targets: ReleaseTargets) -> str:
    """Return a remark if nothing should be served, or if the running image is not the pinned one.

    Empty if SageMaker tells no digest.
    """
    if release is None or not targets.serves:
        reason = "nothing is pinned" if release is None else "the file has no section `serving`"
        return f"{reason}: `shoal destroy {targets.environment} --serving` deletes it"
    if served.image_digests in {(), (release.image_digest,)}:
        return ""
    return (
        f"the image that runs is {', '.join(served.image_digests)}, pinned is"
        f" {release.image_digest}"
    )
