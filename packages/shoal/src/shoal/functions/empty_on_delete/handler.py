"""CloudFormation custom resource: on Delete it empties a bucket (all versions) or a model package
group; Create and Update do nothing.

It acts only on resources with the tag `shoal:empty-on-delete: true`.
"""

import json
import logging
import re
import time
from typing import Any

import boto3
from botocore.exceptions import ClientError
from custom_resource import answer

EMPTY_TAG = {"Key": "shoal:empty-on-delete", "Value": "true"}
_NOT_FOUND = ("NoSuchBucket", "404", "ResourceNotFound")
_PASSING = ("InternalError", "ServiceUnavailable", "SlowDown")
"""Codes of single keys in an answer that is none of an error, so that nothing repeats them (S3 API
reference, DeleteObjects and "Error responses"): the next page has them again.
"""
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_PAUSE_S = 1.0
_SPARE_MS = 30_000
_CLOSED_SID = "ClosedBeforeDeletion"

log = logging.getLogger()
log.setLevel(logging.INFO)


class OutOfTimeError(Exception):
    """There is more to delete than one invocation manages."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Answer in every case: without an answer CloudFormation waits for an hour."""
    reason = ""
    try:
        if event["RequestType"] == "Delete":
            empty(event["ResourceType"], event["ResourceProperties"], context)
    except Exception as error:
        log.exception("could not empty %s", event["ResourceProperties"])
        reason = f"{type(error).__name__}: {error}"
    answer(event, reason)


def empty(resource_type: str, properties: dict[str, str], context: Any) -> None:
    """Empty what `properties` names; what does not exist counts as empty."""
    try:
        if resource_type == "Custom::EmptyBucket":
            empty_bucket(properties["BucketName"], context)
        else:
            empty_group(
                properties["ModelPackageGroupName"], properties["ModelPackageGroupArn"], context
            )
    except ClientError as error:
        if error.response["Error"]["Code"] not in _NOT_FOUND and "does not exist" not in str(error):
            raise
        log.info("already gone: %s", error)


def empty_bucket(bucket: str, context: Any) -> None:
    """Close the bucket for writing (access logs arrive for hours), then delete every version and
    delete marker.

    The first page is listed again until it is empty: nothing is taken for the last page.
    """
    s3 = boto3.client("s3")
    if EMPTY_TAG not in _bucket_tags(s3, bucket):
        log.info("%s does not carry the tag: left alone", bucket)
        return
    _close(s3, bucket)
    # one page has at most 1,000, which is what one request may delete
    while objects := [
        {key: each[key] for key in ("Key", "VersionId")}
        for page in [s3.list_object_versions(Bucket=bucket)]
        for each in (*page.get("Versions", []), *page.get("DeleteMarkers", []))
    ]:
        _leave_time(context)
        # DeleteObjects refuses keys that XML 1.0 has no place for (boto/boto3, issue 2005)
        if unlisted := [each for each in objects if _NOT_XML.search(each["Key"])]:
            for each in unlisted:
                _leave_time(context)
                s3.delete_object(Bucket=bucket, **each)
            continue
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        errors = answer.get("Errors", [])
        if lasting := [each for each in errors if each["Code"] not in _PASSING]:
            raise RuntimeError(f"{bucket}: {lasting[0]}")
        log.info("deleted %d versions from %s", len(objects) - len(errors), bucket)
        time.sleep(_PAUSE_S if errors else 0)


def empty_group(group: str, group_arn: str, context: Any) -> None:
    """Delete every model package of the group."""
    sagemaker = boto3.client("sagemaker")
    tags = sagemaker.get_paginator("list_tags").paginate(ResourceArn=group_arn)
    if EMPTY_TAG not in [tag for page in tags for tag in page["Tags"]]:
        log.info("%s does not carry the tag: left alone", group)
        return
    pages = sagemaker.get_paginator("list_model_packages").paginate(ModelPackageGroupName=group)
    for arn in [
        package["ModelPackageArn"] for page in pages for package in page["ModelPackageSummaryList"]
    ]:
        _leave_time(context)
        sagemaker.delete_model_package(ModelPackageName=arn)
        log.info("deleted %s", arn)


def _bucket_tags(s3: Any, bucket: str) -> list[dict[str, str]]:
    try:
        tags: list[dict[str, str]] = s3.get_bucket_tagging(Bucket=bucket)["TagSet"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchTagSet":
            raise
        return []
    return tags


def _close(s3: Any, bucket: str) -> None:
    try:
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchBucketPolicy":
            raise
        policy = {"Version": "2012-10-17", "Statement": []}
    if any(statement.get("Sid") == _CLOSED_SID for statement in policy["Statement"]):
        return
    policy["Statement"].append(
        {
            "Sid": _CLOSED_SID,
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{bucket}/*",
        }
    )
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


def _leave_time(context: Any) -> None:
    if context.get_remaining_time_in_millis() < _SPARE_MS:
        raise OutOfTimeError("not finished in 15 minutes; delete the stack again to go on")
