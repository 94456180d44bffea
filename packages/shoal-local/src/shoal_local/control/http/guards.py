"""Guards: checks of a request before its service answers it. Each raises AwsError to refuse it.

GUARDS refuse what moto would answer with a success that nothing stands behind, or what would make
it leave this machine; before anything is kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError

Guard = Callable[[ApiCall], None]
Guards = Mapping[str, Mapping[str, tuple[Guard, ...]]]
"""By service and operation; `*` is every operation."""


@dataclass(frozen=True)
class Refusal:
    """Refuses every request for the same reason."""

    reason: str

    def __call__(self, _call: ApiCall) -> None:
        raise AwsError("UnknownOperationException", self.reason)


@dataclass(frozen=True)
class OnlyThese:
    """Refuses the operations of a service that are not among these."""

    operations: frozenset[str]

    def __call__(self, call: ApiCall) -> None:
        if call.operation not in self.operations:
            refuse(f"does not emulate {call.service} {call.operation}")(call)


def refuse(what: str) -> Refusal:
    """Return a guard that refuses every request."""
    return Refusal(f"Shoal's emulator {what}")


def merged(*tables: Mapping[str, Mapping[str, Guard]]) -> Guards:
    """Return the guards of all tables, those of the first table first."""
    guards: dict[str, dict[str, tuple[Guard, ...]]] = {}
    for table in tables:
        for service, rows in table.items():
            operations = guards.setdefault(service, {})
            for operation, guard in rows.items():
                operations[operation] = (*operations.get(operation, ()), guard)
    return guards


def refuses(guard: Guard, operation: str) -> bool:
    """Return whether no request of the operation passes the guard, whatever it contains."""
    if isinstance(guard, OnlyThese):
        return operation not in guard.operations
    return isinstance(guard, Refusal)


def _subscription(call: ApiCall) -> None:
    """Refuse subscribers other than mail addresses, which are kept and get nothing.

    moto would send HTTP requests to any address, and to queues past their policies.
    """
    protocol = call.parameters.get("Protocol")
    if protocol != "email":
        reason = f"Shoal's emulator delivers no notifications of topics to {protocol}"
        raise AwsError("InvalidParameter", reason)


def _notification(call: ApiCall) -> None:
    """Refuse targets other than EventBridge, because moto would deliver to them by itself, past
    policies.
    """
    configuration: Mapping[str, Any] = call.parameters.get("NotificationConfiguration") or {}
    for name in ("LambdaFunctionConfigurations", "QueueConfigurations", "TopicConfigurations"):
        if configuration.get(name) is not None and configuration.get(name) != []:
            reason = f"Shoal's emulator tells of objects through EventBridge only ({name})"
            raise AwsError("InvalidArgument", reason)


def _security_group(call: ApiCall) -> None:
    if "GroupName" in call.parameters:
        reason = "Shoal's emulator deletes security groups by GroupId only, not by GroupName"
        raise AwsError("InvalidParameterValue", reason)


# moto goes by the URL, and takes an operation that it does not know for one that it knows:
# DeleteBucketMetricsConfiguration for DeleteBucket, PutObjectAnnotation for PutObject.
_OF_S3 = """
    AbortMultipartUpload CompleteMultipartUpload CopyObject CreateBucket CreateMultipartUpload
    DeleteBucket DeleteBucketCors DeleteBucketEncryption DeleteBucketLifecycle
    DeleteBucketOwnershipControls DeleteBucketPolicy DeleteBucketReplication DeleteBucketTagging
    DeleteBucketWebsite DeleteObject DeleteObjectTagging DeleteObjects DeletePublicAccessBlock
    GetBucketAccelerateConfiguration GetBucketAcl GetBucketCors GetBucketEncryption
    GetBucketInventoryConfiguration GetBucketLifecycle GetBucketLifecycleConfiguration
    GetBucketLocation GetBucketLogging GetBucketNotification GetBucketNotificationConfiguration
    GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus GetBucketReplication
    GetBucketTagging GetBucketVersioning GetBucketWebsite GetObject GetObjectAcl
    GetObjectAttributes GetObjectLegalHold GetObjectLockConfiguration GetObjectTagging
    GetPublicAccessBlock HeadBucket HeadObject ListBucketInventoryConfigurations ListBuckets
    ListMultipartUploads ListObjectVersions ListObjects ListObjectsV2 ListParts
    PutBucketAccelerateConfiguration PutBucketAcl PutBucketCors PutBucketEncryption
    PutBucketInventoryConfiguration PutBucketLifecycle PutBucketLifecycleConfiguration
    PutBucketLogging PutBucketNotification PutBucketNotificationConfiguration
    PutBucketOwnershipControls PutBucketPolicy PutBucketReplication PutBucketTagging
    PutBucketVersioning PutBucketWebsite PutObject PutObjectAcl PutObjectLegalHold
    PutObjectLockConfiguration PutObjectRetention PutObjectTagging PutPublicAccessBlock
    UploadPart UploadPartCopy
"""
_OF_LAYERS = (
    *("InitiateLayerUpload", "UploadLayerPart", "CompleteLayerUpload", "GetDownloadUrlForLayer"),
)
GUARDS: Mapping[str, Mapping[str, Guard]] = {
    "ec2": {
        "RunInstances": refuse("has no instances (ec2:RunInstances)"),
        "RequestSpotInstances": refuse("has no instances (ec2:RequestSpotInstances)"),
        "CreateFleet": refuse("has no instances (ec2:CreateFleet)"),
        "DeleteSecurityGroup": _security_group,
    },
    "logs": {
        "PutSubscriptionFilter": refuse(
            "delivers no logs to subscriptions (logs:PutSubscriptionFilter)"
        ),
        "StartQuery": refuse("has no Logs Insights queries (logs:StartQuery)"),
        "CreateExportTask": refuse("exports no logs (logs:CreateExportTask)"),
    },
    "s3": {
        "*": OnlyThese(frozenset(_OF_S3.split())),
        "PutBucketNotificationConfiguration": _notification,
    },
    "sns": {"Subscribe": _subscription},
    "ssm": {"SendCommand": refuse("has no instances to command (ssm:SendCommand)")},
    "ecr": {
        "StartImageScan": refuse("scans no images (ecr:StartImageScan)"),
        **{each: refuse(f"keeps no layers of images (ecr:{each})") for each in _OF_LAYERS},
    },
}
