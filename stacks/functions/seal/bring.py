"""CloudFormation custom resource: brings the pinned archive into the environment's own bucket.

Its properties are `ModelPackageArn`, `ModelDataUrl` (where the archive is registered),
`ModelDataSha256`, `ModelDataCompositeSha256` (only needed above 5 GB) and `Bucket`. Its attribute
`ModelDataUrl` is where the archive lies here. An archive that is here needs nobody else: the
registry is asked before the first copy only, and Delete keeps the copy. The reason of a failure
begins with "not brought:".
"""

from __future__ import annotations

import json
import logging
import urllib.request
from typing import Any

import boto3
from botocore.exceptions import ClientError
from sealed_archive import Digests, is_sealed, seal, sealed_key

_MAX_REASON = 1000

log = logging.getLogger()
log.setLevel(logging.INFO)


class NotApprovedError(Exception):
    """The registry does not say that this archive may be served."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Answer in every case: without an answer CloudFormation waits until its timeout."""
    url, reason = "", ""
    try:
        if event["RequestType"] != "Delete":
            url = bring(event["ResourceProperties"])
    except Exception as error:
        log.exception("could not bring %s", event["ResourceProperties"])
        reason = f"not brought: {type(error).__name__}: {error}"[:_MAX_REASON]
    _answer(event, url, reason)


def bring(pinned: dict[str, str]) -> str:
    """Return the URL of the own copy, which has the pinned hash.

    Raises NotApprovedError or SealError where there is none yet, and none may be made.
    """
    s3, bucket, sha256 = boto3.client("s3"), pinned["Bucket"], pinned["ModelDataSha256"]
    digests = Digests(sha256, pinned.get("ModelDataCompositeSha256", ""))
    own, source = f"s3://{bucket}/{sealed_key(sha256)}", pinned["ModelDataUrl"]
    if source == own or not is_sealed(s3, bucket, digests):
        _require_approved(pinned["ModelPackageArn"], source)
        seal(s3, source, bucket, digests, sha256)
        log.info("%s is here as %s", source, own)
    return own


def _require_approved(arn: str, url: str) -> None:
    """Raise NotApprovedError unless the version is approved with this archive.

    SageMaker itself refuses a model of a package that is not approved; a model of an image and an
    archive it does not question.
    """
    try:
        package = boto3.client("sagemaker").describe_model_package(ModelPackageName=arn)
    except ClientError as error:
        raise NotApprovedError(
            f"whether {arn} is approved is not known: {error}; its environment lets in who its"
            " deployment found in the files, so deploy that one again if this one is new"
        ) from error
    approval = package.get("ModelApprovalStatus")
    urls = [each.get("ModelDataUrl") for each in package["InferenceSpecification"]["Containers"]]
    if approval != "Approved":
        raise NotApprovedError(f"{arn} is {approval}, not Approved")
    if urls != [url]:
        raise NotApprovedError(
            f"{arn} has the archive {', '.join(map(str, urls))}, pinned is {url}"
        )


def _answer(event: dict[str, Any], url: str, reason: str) -> None:
    """PUT the outcome to CloudFormation's presigned URL, which is signed for an empty content
    type.
    """
    same = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    # The id never changes: another one would make CloudFormation replace the resource.
    identity = event.get("PhysicalResourceId") or f"{event['ResourceProperties']['Bucket']}-brought"
    outcome = (
        {"Status": "FAILED", "Reason": reason}
        if reason
        else {"Status": "SUCCESS", "Data": {"ModelDataUrl": url}}
    )
    body = json.dumps({**same, **outcome, "PhysicalResourceId": identity}).encode()
    request = urllib.request.Request(  # noqa: S310 - the URL is CloudFormation's
        event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""}
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - see above
        log.info("answered %s: %s", outcome, response.status)
