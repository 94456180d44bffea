"""What an environment pins, compared with what is there: a `Release` and the targets to ask in; one
answer per question out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from config.release import Release
from shoal.verbs import release_facts
from shoal.verbs.deployed_stack import status_of_stack
from shoal.verbs.errors import AWS_ERRORS, ShoalError, refusal
from shoal.verbs.model_data import written_again
from shoal.verbs.registry import APPROVED, describe
from shoal.verbs.serving import Live, live, told_of
from shoal.verbs.target import Target

_IN_SERVICE = "InService"


@dataclass(frozen=True)
class Answer:
    """`agrees` is None where nothing could be asked: neither agreement nor disagreement may be
    claimed then.
    """

    question: str
    says: str
    agrees: bool | None = True


@dataclass(frozen=True)
class Places:
    """Where to ask; each may refuse, for want of credentials, when it is opened."""

    registry: Callable[[], Target]
    """The account whose registry has the release: the one that trained it, or, of a copy, the one
    that it was copied to.
    """
    serving: Callable[[], Target]
    """The environment's own."""
    environment: str
    """Its name, for advice."""
    serving_stack: str
    """Name of the stack that makes the endpoint."""
    pipeline_arn: str = ""
    """Of the pipeline whose executions trained what the registry has."""
    serves: bool = False
    """Whether the environment's settings ask for that stack."""


def compare(release: Release | None, places: Places, endpoint: str) -> Iterator[Answer]:
    """Registry, archive and image as pinned, and what `endpoint` serves. Changes nothing."""
    if release is not None:
        yield _asked("registry", lambda: _registry(places.registry(), release, places.pipeline_arn))
        yield _asked("model data", lambda: _model_data(places.registry(), release))
        yield _asked("image", lambda: _image(places.registry(), release))
    yield _asked("live", lambda: _live(places.serving(), release, endpoint, places))


def _asked(question: str, ask: Callable[[], tuple[str, bool]]) -> Answer:
    try:
        return Answer(question, *ask())
    except AWS_ERRORS as error:
        return Answer(question, f"not known: {refusal(error)}", None)
    except ShoalError as error:
        return Answer(question, f"not known: {error}", None)


def _registry(target: Target, release: Release, pipeline_arn: str) -> tuple[str, bool]:
    """Whether it is approved, and as the block in the file says."""
    package = describe(target, release.model_package_arn)
    facts = release_facts.compare(target, package, release, pipeline_arn)
    return (
        f"{package.approval}, by {package.changed_by}{facts}",
        package.approval == APPROVED and not facts.otherwise,
    )


def _model_data(target: Target, release: Release) -> tuple[str, bool]:
    place = urlsplit(release.model_data_url)
    which = {
        "Bucket": place.netloc,
        "Key": place.path.lstrip("/"),
        "VersionId": release.model_data_version_id,
    }
    try:
        found = target.client("s3").head_object(**which)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
            return f"{release.model_data_url} is gone in the pinned version", False
        raise
    if changed := written_again(target, release.model_data_url, release.model_data_version_id):
        return changed, False
    return f"the pinned version is there and the newest, {found['ContentLength']} bytes", True


def _image(target: Target, release: Release) -> tuple[str, bool]:
    host, _, path = release.image_uri.partition("/")
    registry, region = host.split(".")[0], host.split(".")[3]
    ecr = Target(target.account, region, target.endpoint_url).client("ecr")
    repository, _, tag = path.partition(":")
    by_tag = [{"imageTag": tag}] if tag else []
    wanted = {
        "registryId": registry,
        "repositoryName": repository,
        "imageIds": [*by_tag, {"imageDigest": release.image_digest}],
    }
    try:
        found = {
            str(each["imageId"]["imageDigest"]) for each in ecr.batch_get_image(**wanted)["images"]
        }
    except ecr.exceptions.RepositoryNotFoundException:
        found = set()
    if release.image_digest not in found:
        return f"ECR has no {release.image_uri}@{release.image_digest}", False
    moved = ", ".join(sorted(found - {release.image_digest}))
    return "the pinned digest is there" + (
        f"; the tag {tag} was moved to {moved}, so a deployment may be rolled back" if moved else ""
    ), True


def _live(
    target: Target, release: Release | None, endpoint: str, places: Places
) -> tuple[str, bool]:
    """What the endpoint's models were made of; nothing is a disagreement only where the stack that
    makes it is there.
    """
    found = live(target, endpoint)
    if found is None:
        status = status_of_stack(target, places.serving_stack)
        return (
            f"no endpoint {endpoint}"
            + (f", and its stack {places.serving_stack} is {status}" if status else ""),
            status is None,
        )
    otherwise = _otherwise(found, release, places)
    as_pinned = (
        found.status == _IN_SERVICE
        and found.packages == ((release.model_package_arn,) if release else ())
        and not otherwise
    )
    failure = told_of(found.failure, as_pinned=as_pinned)
    return "; ".join(filter(None, (str(found), otherwise, failure))), as_pinned


def _otherwise(found: Live, release: Release | None, places: Places) -> str:
    """What to say where nothing is to be served, or the image that runs is not the pinned one;
    nothing where SageMaker tells no digest.
    """
    if release is None or not places.serves:
        why = "nothing is pinned" if release is None else "the file has no section `serving`"
        return f"{why}: `shoal destroy {places.environment} --serving` deletes it"
    if found.image_digests in {(), (release.image_digest,)}:
        return ""
    return (
        f"the image that runs is {', '.join(found.image_digests)}, pinned is {release.image_digest}"
    )
