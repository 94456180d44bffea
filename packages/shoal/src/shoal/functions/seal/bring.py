"""CloudFormation custom resource: brings the pinned model into the environment's own bucket.

Its properties are what the model is made of (`ModelPackageArn`, `ModelDataUrl`, which is where the
archive is registered, or the prefix of files, `ImageUri` and `Environment`), `ModelDataSha256`,
`ModelDataCompositeSha256` (only needed for an archive above 5 GB) and `Bucket`. Its attribute
`ModelDataUrl` is where the model lies here.
The registry is asked unless the metadata of the own copy say that exactly this was approved, so a
release that was brought needs nobody else. Delete keeps the copy. The reason of a failure begins
with "not brought:".
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterable
from typing import Any

import boto3
from botocore.exceptions import ClientError
from custom_resource import answer
from model_archive import model_data_of
from sealed_archive import Digests, SealError, copy, metadata_of_sealed, s3_client

_APPROVED = "approved"
"""Key of metadata: what was approved with this archive, newest first. Only this function writes it,
and of other roles only Seal's could (packages/shoal/src/shoal/constructs/storage.py).
"""
_MAX_APPROVED = 16
"""S3 keeps 2 KB of metadata (S3 user guide, "Working with object metadata")."""
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Between questions of the stack's first deployment, whose role is seconds old: IAM takes moments
to apply a policy (IAM user guide, "Troubleshoot IAM": "Changes that I make are not always
immediately visible"; the CDK's own functions hit it, aws-cdk#37675; read, not run). Later
deployments do not change it.
"""

log = logging.getLogger()
log.setLevel(logging.INFO)


class NotApprovedError(Exception):
    """The registry does not say that this archive may be served."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Answer in every case: without an answer CloudFormation waits until its timeout."""
    url, reason = "", ""
    try:
        if event["RequestType"] != "Delete":
            is_new = event["RequestType"] == "Create"
            url = bring(event["ResourceProperties"], PAUSES_S if is_new else ())
    except Exception as error:
        log.exception("could not bring %s", event["ResourceProperties"])
        reason = f"not brought: {type(error).__name__}: {error}"
    answer(event, reason, ModelDataUrl=url)


def bring(pinned: dict[str, Any], pauses_s: Iterable[float] = ()) -> str:
    """Return the URL of the own copy, which has the pinned hash.

    A registry that refuses to answer is asked again after each of the pauses.

    Raises NotApprovedError or SealError where the pinned release was never brought, and may not be.
    """
    s3, bucket, sha256 = s3_client(), pinned["Bucket"], pinned["ModelDataSha256"]
    source = pinned["ModelDataUrl"]
    digests = Digests(sha256, pinned.get("ModelDataCompositeSha256", ""), source.endswith("/"))
    own = f"s3://{bucket}/{digests.key}"
    metadata = metadata_of_sealed(s3, bucket, digests)
    if source == own:
        # The registry is the environment's own, so nothing is gained by keeping its answer.
        _require_approved(pinned, pauses_s)
        if metadata is None:
            raise SealError(f"{own} is not there with the pinned sha256")
        return own
    # the SHA-256 of what the model is made of, as canonical JSON
    parts = {key: pinned[key] for key in ("ModelPackageArn", "ModelDataUrl", "ImageUri")}
    parts["Environment"] = pinned.get("Environment") or {}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    release = hashlib.sha256(text.encode()).hexdigest()
    approved = (metadata or {}).get(_APPROVED, "").split()
    if release not in approved:
        _require_approved(pinned, pauses_s)
        noted = {_APPROVED: " ".join([release, *approved][:_MAX_APPROVED])}
        copy(s3, source, bucket, digests, sha256, noted)
        log.info("%s is here as %s", source, own)
    return own


def _require_approved(pinned: dict[str, Any], pauses_s: Iterable[float]) -> None:
    """Raise NotApprovedError unless the version is approved with what the model is made of.

    SageMaker itself refuses a model of a package that is not approved; a model of an image, an
    archive and variables it does not question.
    """
    arn = pinned["ModelPackageArn"]
    try:
        package = _describe(arn, pauses_s)
    except ClientError as error:
        raise NotApprovedError(
            f"whether {arn} is approved is not known: {error}; its environment lets in who its"
            " deployment found in the files, so deploy that one again if this one is new"
        ) from error
    approval = package.get("ModelApprovalStatus")
    if approval != "Approved":
        raise NotApprovedError(f"{arn} is {approval}, not Approved")
    containers = package["InferenceSpecification"]["Containers"]
    if len(containers) != 1:
        raise NotApprovedError(f"{arn} has {len(containers)} containers, pinned is one")
    image = str(containers[0].get("Image")).partition("@")[0]  # a built one has its digest
    for name, value, expected in (
        ("archive", model_data_of(containers[0]), pinned["ModelDataUrl"]),
        ("image", image, pinned["ImageUri"]),
        ("environment", containers[0].get("Environment") or {}, pinned.get("Environment") or {}),
    ):
        if value != expected:
            raise NotApprovedError(f"{arn} has the {name} {value}, pinned is {expected}")


def _describe(arn: str, pauses_s: Iterable[float]) -> dict[str, Any]:
    sagemaker = boto3.client("sagemaker")
    for pause_s in pauses_s:
        try:
            return dict(sagemaker.describe_model_package(ModelPackageName=arn))
        except ClientError as error:
            if not error.response["Error"]["Code"].startswith("AccessDenied"):
                raise
            log.info("asking again in %s s: %s", pause_s, error)
            time.sleep(pause_s)
    return dict(sagemaker.describe_model_package(ModelPackageName=arn))
