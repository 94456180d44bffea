"""Compare what an environment pins with what exists: one answer per question.

A person may edit what `shoal promote` wrote, so each key of the release is compared with the
registry. The policies that let another account serve a version give it neither the report nor the
execution, and read-only roles may not decrypt. A key that cannot be read is named, and is no
disagreement.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.model_archive import checksums_below, digest_of
from shoal.aws.objects import NO_OBJECT, EcrImage, object_at
from shoal.aws.registry import APPROVED, UNNAMED, Package, describe
from shoal.aws.serving import LiveEndpoint, live_endpoint
from shoal.aws.stacks import status_of_stack
from shoal.aws.target import Target
from shoal.errors import AWS_ERRORS, ShoalError, error_code, refusal
from shoal.launch import tables
from shoal.page.results import MAX_BYTES, Evaluation
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal.settings.settings import Environment
from shoal.verbs.promote.promotion import executed_definition

_IN_SERVICE = "InService"
_ACCESS_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "403"})
_GONE = NO_OBJECT | {"ResourceNotFound", "ResourceNotFoundException", "ValidationException"}
_QUESTIONS = 5
"""For each instance."""
Open = Callable[[], Target]
"""Opens a target, which may fail for want of credentials."""
Ask = Callable[[Target, str], Mapping[str, Any]]
"""Takes where an endpoint is and its name, and returns what its container says of its model."""


@dataclass(frozen=True)
class Answer:
    """`agrees` is None where nothing could be asked: that is neither agreement nor disagreement."""

    question: str
    message: str
    agrees: bool | None = True


def compare(
    environment: Environment,
    trainer: Environment,
    registry: Open,
    serving: Open,
    ask: Ask | None = None,
) -> Iterator[Answer]:
    """Compare registry, archive and image with what the environment pins, and what it serves; with
    `ask` its endpoint's containers say what they have loaded.

    `registry` is the account of `trainer`, `serving` the environment's own. Changes nothing.
    """
    names, release = Names(environment), environment.release
    if release is not None:
        arn = Names(trainer).pipeline_arn
        yield _answer("registry", lambda: _registry(registry(), release, arn))
        yield _answer("model data", lambda: _model_data(serving(), release, names))
        yield _answer("image", lambda: _image(serving(), release))
    yield _answer("live", lambda: _serving(serving(), names))
    if ask and release and environment.serves and tables.runs_inference_script(release.image_uri):
        yield _answer("content", lambda: _content(serving(), release, names.serving_endpoint, ask))


def _answer(question: str, look_up: Callable[[], tuple[str, bool]]) -> Answer:
    try:
        return Answer(question, *look_up())
    except (ShoalError, *AWS_ERRORS) as error:
        return Answer(question, f"not known: {refusal(error)}", None)


def _registry(target: Target, release: Release, pipeline_arn: str) -> tuple[str, bool]:
    """Return whether the version is approved and equals the block in the file."""
    package = describe(target, release.model_package_arn)
    differences, unread = _differences(target, package, release, pipeline_arn)
    says = (f"{package.approval}, by {package.changed_by}", *differences, *unread)
    return "; ".join(says), package.approval == APPROVED and not differences


def _model_data(target: Target, release: Release, names: Names) -> tuple[str, bool]:
    """Return whether the environment's own copy has the pinned hash, as S3 computed it.

    A deployment makes it, so it is missing only if the serving stack exists. Roles that only look
    may not decrypt, and then S3 does not tell the hash (API reference, HeadObject, ChecksumMode).
    """
    url, s3 = names.sealed_url(release), target.client("s3")
    request = object_at(url)
    try:
        checksums = checksums_below(s3, *request.values()) if release.is_files else {}
    except ClientError as error:
        if error.operation_name != "HeadObject":
            raise
        return f"files below {url} are there; their sha256 not compared: {refusal(error)}", True
    except ValueError as error:
        return str(error), False
    if checksums:
        listed, sha256 = digest_of(checksums), release.model_data_sha256
        return f"the own list of files is {listed}, pinned is {sha256}", listed == sha256
    try:
        size = s3.head_object(**request)["ContentLength"]
    except ClientError as error:
        if error_code(error) not in NO_OBJECT:
            raise
        if status_of_stack(target, names.stack("serving")):
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
    uri = f"{release.image_uri}@{release.image_digest}"
    image = EcrImage.of(uri)
    by_tag = [{"imageTag": image.tag}] if image and image.tag else []
    digests = image.digests(target, image.id, *by_tag) if image else set()
    if release.image_digest not in digests:
        return f"ECR has no {uri}", False
    others = ", ".join(sorted(digests - {release.image_digest}))
    moved = f"; its tag {image and image.tag} names {others} now, which is deployed once promoted"
    return f"the pinned digest is there{moved if others else ''}", True


def _serving(target: Target, names: Names) -> tuple[str, bool]:
    """Return what the endpoint serves, and whether that is as pinned.

    A missing endpoint is a disagreement only if its stack exists.
    """
    endpoint, release = names.serving_endpoint, names.environment.release
    served = live_endpoint(target, endpoint)
    if served is None:
        stack = names.stack("serving")
        status = status_of_stack(target, stack)
        there = f", and its stack {stack} is {status}" if status else ""
        return f"no endpoint {endpoint}{there}", status is None
    remark = _remark(served, names.environment)
    archives = (names.sealed_url(release),) if release else ()
    as_pinned = served.status == _IN_SERVICE and served.archives == archives and not remark
    # After a rollback shoal-local goes on telling why, even when git serves the old release again.
    # What AWS does is not documented.
    why = (
        "as pinned; SageMaker still tells why an earlier deployment failed"
        if as_pinned
        else "a deployment failed"
    )
    failure = served.failure and f"{why}: {served.failure}"
    return "; ".join(filter(None, (str(served), remark, failure))), as_pinned


def _content(target: Target, release: Release, endpoint: str, ask: Ask) -> tuple[str, bool]:
    """Return the content that the endpoint's containers report, and whether all of it is pinned.

    SageMaker does not say which instance answers, so this is a sample: several questions for each
    instance, of which a container may still get none.
    """
    served = live_endpoint(target, endpoint)
    if served is None:
        return f"there is no endpoint {endpoint} to ask", True
    questions = _QUESTIONS * max(1, served.instances or 1)
    loaded = sorted({str(ask(target, endpoint).get("content_sha256")) for _ in range(questions)})
    says = f"{questions} answers say content {', '.join(loaded)}"
    if loaded == [release.content_sha256]:
        return says, True
    return f"{says}; pinned is {release.content_sha256}", False


def _remark(served: LiveEndpoint, environment: Environment) -> str:
    """Return a remark if nothing should be served, or if the running image is not the pinned one.

    Empty if SageMaker tells no digest.
    """
    release = environment.release
    if release is None or not environment.serves:
        reason = "nothing is pinned" if release is None else "the file has no section `serving`"
        return f"{reason}: `shoal destroy {environment.title} --serving` deletes it"
    if served.image_digests in {(), (release.image_digest,)}:
        return ""
    running = ", ".join(served.image_digests)
    return f"the image that runs is {running}, pinned is {release.image_digest}"


def _differences(
    target: Target, package: Package, release: Release, pipeline_arn: str
) -> tuple[list[str], list[str]]:
    """Return a phrase for each key of `release` that differs from what registry, execution and
    report say, and one for each that could not be compared.

    `pipeline_arn` is of the environment that trained the version. Raises ClientError where a
    service fails otherwise than by refusing.
    """
    values: dict[str, Any] = {
        "model_package_version": package.version,
        "model_data_url": package.model_data_url,
        "image_uri": package.image_uri,
        "environment": dict(package.environment),
    }
    if package.approval == APPROVED and package.changed_by != UNNAMED:
        values["approved_by"] = package.changed_by
        values["approved_at"] = f"{package.changed_at:%Y-%m-%dT%H:%M:%SZ}"
    execution = package.metadata.get("execution_id")
    definition = f"{pipeline_arn}/execution/{execution}"
    unread = []
    for key, what, read in (
        (
            "definition_sha256",
            definition,
            lambda: {"definition_sha256": executed_definition(target, pipeline_arn, execution)},
        ),
        ("metrics", package.statistics_url, lambda: _evaluation(target, package)),
    ):
        answer = _read(target, release, what, read)
        if isinstance(answer, str):
            unread.append(f"{key} not compared: {answer}")
        else:
            values |= answer
    # Its files are in the archive of the code alone, which only a promotion downloads.
    unread.append("code_commit not compared: `shoal promote` compares it with what trained")
    pinned = release.model_dump()
    differences = [
        f"pinned is {key} {pinned[key]}, not {value}"
        for key, value in values.items()
        if pinned[key] != value
    ]
    return differences, unread


def _evaluation(target: Target, package: Package) -> dict[str, Any]:
    """Return what the evaluation's report says."""
    url = str(package.statistics_url)
    report = target.client("s3").get_object(**object_at(url))["Body"].read(MAX_BYTES)
    try:
        evaluation = Evaluation.of(report)
    except ValueError as error:
        return {"metrics": f"of {url}, which {error}"}
    return {
        "metrics": dict(evaluation.metrics),
        "model_data_sha256": evaluation.archive_sha256,
        "model_data_composite_sha256": evaluation.archive_composite_sha256,
        "content_sha256": evaluation.content_sha256,
    }


def _read(
    target: Target, release: Release, what: str | None, read: Callable[[], dict[str, Any]]
) -> dict[str, Any] | str:
    """Return what is read, or why `what` cannot be, which only the trainer's account can show."""
    if what is None:
        return "the registry names no report"
    if target.account != release.account:
        return f"only credentials of {release.account} may read {what}"
    try:
        return read()
    except ClientError as error:
        if error_code(error) in _ACCESS_DENIED:
            return f"these credentials may not read {what}"
        if error_code(error) in _GONE:
            return f"{what} is gone"
        raise
