"""What an environment pins, compared with what is there: a `Release` and the targets to ask in; one answer per question out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from config.release import Release
from lifecycle.errors import AWS_ERRORS, LifecycleError, refusal
from lifecycle.registry import APPROVED, describe
from lifecycle.serving import live
from lifecycle.target import Target


@dataclass(frozen=True)
class Answer:
    """`agrees` is None where nothing could be asked: neither agreement nor disagreement may be claimed then."""

    question: str
    says: str
    agrees: bool | None = True


@dataclass(frozen=True)
class Places:
    """Where to ask; each may refuse, for want of credentials, when it is opened."""

    registry: Callable[[], Target]
    """The account whose registry has the release: the one that trained it, or, of a copy, the one that it was copied to."""
    serving: Callable[[], Target]
    """The environment's own."""


def compare(release: Release | None, places: Places, endpoint: str) -> Iterator[Answer]:
    """Registry, archive and image as pinned, and what `endpoint` serves. Changes nothing."""
    if release is not None:
        yield _asked("registry", lambda: _registry(places.registry(), release))
        yield _asked("model data", lambda: _model_data(places.registry(), release))
        yield _asked("image", lambda: _image(places.registry(), release))
    yield _asked("live", lambda: _live(places.serving(), release, endpoint))


def _asked(question: str, ask: Callable[[], tuple[str, bool]]) -> Answer:
    try:
        return Answer(question, *ask())
    except AWS_ERRORS as error:
        return Answer(question, f"not known: {refusal(error)}", None)
    except LifecycleError as error:
        return Answer(question, f"not known: {error}", None)


def _registry(target: Target, release: Release) -> tuple[str, bool]:
    package = describe(target, release.model_package_arn)
    return f"{package.approval}, by {package.changed_by}", package.approval == APPROVED


def _model_data(target: Target, release: Release) -> tuple[str, bool]:
    place = urlsplit(release.model_data_url)
    which = {"Bucket": place.netloc, "Key": place.path.lstrip("/"), "VersionId": release.model_data_version_id}
    try:
        found = target.client("s3").head_object(**which)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return f"{release.model_data_url} is gone in the pinned version", False
        raise
    return f"the pinned version is there, {found['ContentLength']} bytes", True


def _image(target: Target, release: Release) -> tuple[str, bool]:
    host, _, path = release.image_uri.partition("/")
    registry, region = host.split(".")[0], host.split(".")[3]
    ecr = Target(target.account, region, target.endpoint_url).client("ecr")
    image = {"imageDigest": release.image_digest}
    try:
        found = ecr.batch_get_image(registryId=registry, repositoryName=path.partition(":")[0], imageIds=[image])["images"]
    except ecr.exceptions.RepositoryNotFoundException:
        found = []
    return ("the pinned digest is there", True) if found else (f"ECR has no {release.image_uri}@{release.image_digest}", False)


def _live(target: Target, release: Release | None, endpoint: str) -> tuple[str, bool]:
    """What the endpoint's models were made of; nothing is no disagreement, because a release is deployed after it is pinned."""
    found = live(target, endpoint)
    if found is None:
        return f"no endpoint {endpoint}", True
    return str(found), found.packages == ((release.model_package_arn,) if release else ())
