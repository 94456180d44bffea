"""AWS::S3: buckets and their policies.

Logging and lifecycle are kept and described; nothing here delivers logs or expires objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError
from moto.s3.models import s3_backends

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    names,
    undo_on_failure,
)

RULE_MEMBERS = names(
    "Id Status Prefix ExpirationInDays NoncurrentVersionExpirationInDays"
    " NoncurrentVersionExpiration AbortIncompleteMultipartUpload ExpiredObjectDeleteMarker"
    " Transitions"
)


class Bucket(ResourceType):
    type_name = "AWS::S3::Bucket"
    properties = names(
        "BucketName BucketEncryption VersioningConfiguration PublicAccessBlockConfiguration"
        " LoggingConfiguration LifecycleConfiguration OwnershipControls AccessControl"
        " CorsConfiguration NotificationConfiguration Tags"
    )
    replaced_by = names("BucketName")

    def create(self, request: Request) -> Created:
        s3, name = request.client("s3"), request.name("BucketName", 63, lower=True)
        location = (
            {}
            if request.region == "us-east-1"
            else {"CreateBucketConfiguration": {"LocationConstraint": request.region}}
        )
        ownership = request.get("OwnershipControls")
        owner = {"ObjectOwnership": ownership["Rules"][0]["ObjectOwnership"]} if ownership else {}
        s3.create_bucket(Bucket=name, **location, **owner)
        with undo_on_failure(lambda: s3.delete_bucket(Bucket=name)):
            self._configure(s3, name, request)
        return Created(name, attributes(name, request.region))

    def update(self, request: Request) -> Created:
        self._configure(request.client("s3"), request.physical_id, request)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("s3").delete_bucket(Bucket=request.physical_id)

    def _configure(self, s3: Any, name: str, request: Request) -> None:
        """Set what is new or changed; `old` is empty for a new bucket."""
        if request.changed("BucketEncryption"):
            _encryption(s3, name, request.get("BucketEncryption"))
        if request.changed("VersioningConfiguration"):
            status = request.get("VersioningConfiguration", {"Status": "Suspended"})
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=status)
        if request.changed("PublicAccessBlockConfiguration"):
            _public_access(s3, name, request.get("PublicAccessBlockConfiguration"))
        if request.changed("LifecycleConfiguration"):
            _lifecycle(s3, name, request.get("LifecycleConfiguration"))
        if request.changed("LoggingConfiguration"):
            _logging(s3, name, request)
        if request.changed("NotificationConfiguration"):
            _notifications(s3, name, request.get("NotificationConfiguration") or {})
        if request.changed("CorsConfiguration"):
            _cors(s3, name, request.get("CorsConfiguration"))
        if (
            request.changed("AccessControl")
            and request.get("AccessControl", "Private") != "Private"
        ):
            s3.put_bucket_acl(Bucket=name, ACL=_canned(request["AccessControl"]))
        if request.tags():
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": request.tags()})


class BucketPolicy(ResourceType):
    type_name = "AWS::S3::BucketPolicy"
    properties = names("Bucket PolicyDocument")
    replaced_by = names("Bucket")

    def create(self, request: Request) -> Created:
        request.client("s3").put_bucket_policy(
            Bucket=request["Bucket"], Policy=json.dumps(request["PolicyDocument"])
        )
        return Created(request["Bucket"])

    def update(self, request: Request) -> Created:
        return self.create(request)

    def delete(self, request: Request) -> None:
        request.client("s3").delete_bucket_policy(Bucket=request["Bucket"])


def attributes(name: str, region: str) -> dict[str, str]:
    return {
        "Arn": f"arn:aws:s3:::{name}",
        "DomainName": f"{name}.s3.amazonaws.com",
        "RegionalDomainName": f"{name}.s3.{region}.amazonaws.com",
        "DualStackDomainName": f"{name}.s3.dualstack.{region}.amazonaws.com",
        "WebsiteURL": f"http://{name}.s3-website-{region}.amazonaws.com",
    }


def _encryption(s3: Any, name: str, configuration: Mapping[str, Any] | None) -> None:
    if not configuration:
        s3.delete_bucket_encryption(Bucket=name)
        return
    rules = []
    for rule in configuration["ServerSideEncryptionConfiguration"]:
        renamed = {key: value for key, value in rule.items() if key == "BucketKeyEnabled"}
        rules.append(
            {"ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"], **renamed}
        )
    s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules})


def _public_access(s3: Any, name: str, configuration: Mapping[str, Any] | None) -> None:
    if configuration:
        s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=configuration)
    else:
        s3.delete_public_access_block(Bucket=name)


def _lifecycle(s3: Any, name: str, configuration: Mapping[str, Any] | None) -> None:
    if configuration:
        rules = [lifecycle_rule(rule, number) for number, rule in enumerate(configuration["Rules"])]
        s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
    else:
        s3.delete_bucket_lifecycle(Bucket=name)


def lifecycle_rule(rule: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a lifecycle rule of CloudFormation as one of S3."""
    unknown = sorted(set(rule) - RULE_MEMBERS)
    if unknown:
        raise ResourceError(
            f"Shoal's emulator does not emulate {unknown[0]} in lifecycle rules of buckets"
        )
    s3_rule: dict[str, Any] = {
        "ID": rule.get("Id", f"rule-{number}"),
        "Status": rule["Status"],
        "Filter": {"Prefix": rule.get("Prefix", "")},
    }
    if "ExpirationInDays" in rule:
        s3_rule["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    if "ExpiredObjectDeleteMarker" in rule:
        s3_rule["Expiration"] = {"ExpiredObjectDeleteMarker": rule["ExpiredObjectDeleteMarker"]}
    if "NoncurrentVersionExpirationInDays" in rule:
        s3_rule["NoncurrentVersionExpiration"] = {
            "NoncurrentDays": int(rule["NoncurrentVersionExpirationInDays"])
        }
    if "NoncurrentVersionExpiration" in rule:
        s3_rule["NoncurrentVersionExpiration"] = {
            key: int(value) for key, value in rule["NoncurrentVersionExpiration"].items()
        }
    if "AbortIncompleteMultipartUpload" in rule:
        days = rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
        s3_rule["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": int(days)}
    if "Transitions" in rule:
        s3_rule["Transitions"] = [
            {
                "StorageClass": transition["StorageClass"],
                "Days": int(transition["TransitionInDays"]),
            }
            for transition in rule["Transitions"]
        ]
    return s3_rule


def _logging(s3: Any, name: str, request: Request) -> None:
    configuration = request.get("LoggingConfiguration") or {}
    if not configuration:
        s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={})
        return
    target = {
        "TargetBucket": configuration.get("DestinationBucketName", name),
        "TargetPrefix": configuration.get("LogFilePrefix", ""),
    }
    try:
        s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={"LoggingEnabled": target})
    except ClientError as error:
        if error.response["Error"]["Code"] != "InvalidTargetBucketForLogging":
            raise
        # AWS takes the setting before the target's policy allows the log service. moto needs the
        # policy first.
        backend = s3_backends[request.account]["aws"]
        if target["TargetBucket"] not in backend.buckets:
            raise
        backend.buckets[name].logging = target


def _notifications(s3: Any, name: str, configuration: Mapping[str, Any]) -> None:
    """Turn EventBridge on or off.

    Queues, topics and functions are refused, because nothing would be delivered to them.
    """
    unknown = sorted(set(configuration) - {"EventBridgeConfiguration"})
    if unknown:
        raise ResourceError(
            f"Shoal's emulator does not emulate {unknown[0]} of buckets; EventBridgeConfiguration"
            " it does"
        )
    enabled = (
        str(
            configuration.get("EventBridgeConfiguration", {}).get("EventBridgeEnabled", True)
        ).lower()
        == "true"
        if configuration
        else False
    )
    s3.put_bucket_notification_configuration(
        Bucket=name, NotificationConfiguration={"EventBridgeConfiguration": {}} if enabled else {}
    )


def _cors(s3: Any, name: str, configuration: Mapping[str, Any] | None) -> None:
    if configuration:
        rules = [
            {key if key != "MaxAge" else "MaxAgeSeconds": value for key, value in rule.items()}
            for rule in configuration["CorsRules"]
        ]
        s3.put_bucket_cors(Bucket=name, CORSConfiguration={"CORSRules": rules})
    else:
        s3.delete_bucket_cors(Bucket=name)


def _canned(access_control: str) -> str:
    """Return `LogDeliveryWrite` as `log-delivery-write`."""
    return "".join(
        f"-{letter.lower()}" if letter.isupper() else letter for letter in access_control
    ).lstrip("-")


TYPES: tuple[ResourceType, ...] = (Bucket(), BucketPolicy())
