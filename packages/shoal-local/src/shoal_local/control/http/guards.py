"""Guards: checks of a request before its service answers it. Each raises AwsError to refuse it.

GUARDS refuse what moto would answer with a success that nothing stands behind, or what would make
it leave this machine; before anything is kept.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.http.protocol import ApiCall, Guard
from shoal_local.errors import AwsError

Guards = Mapping[str, Mapping[str, tuple[Guard, ...]]]
"""By service and operation; `*` is every operation."""


@dataclass(frozen=True)
class Refusal:
    """Refuses every request for the same reason."""

    what: str

    def __call__(self, call: ApiCall) -> None:
        raise unknown(f"Shoal's emulator {self.what} ({call.service}:{call.operation})")


def unknown(reason: str) -> AwsError:
    """Return the refusal of what is not emulated."""
    return AwsError("UnknownOperationException", reason)


def merged(*tables: Mapping[str, Mapping[str, Guard]]) -> Guards:
    """Return the guards of all tables, those of the first table first."""
    guards: dict[str, dict[str, tuple[Guard, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for table in tables:
        for service, rows in table.items():
            for operation, guard in rows.items():
                guards[service][operation] += (guard,)
    return guards


def _subscription(call: ApiCall) -> None:
    """Refuse subscribers other than mail addresses, which are kept and get nothing.

    moto would send HTTP requests to any address, and to queues past their policies.
    """
    protocol = call.parameters.get("Protocol")
    if protocol != "email":
        reason = f"Shoal's emulator delivers no notifications of topics to {protocol}"
        raise AwsError("InvalidParameter", reason)


def _notification(call: ApiCall) -> None:
    """Refuse targets other than EventBridge: moto would deliver to them past policies."""
    configuration: Mapping[str, Any] = call.parameters.get("NotificationConfiguration") or {}
    for name in ("LambdaFunctionConfigurations", "QueueConfigurations", "TopicConfigurations"):
        if configuration.get(name):
            reason = f"Shoal's emulator tells of objects through EventBridge only ({name})"
            raise AwsError("InvalidArgument", reason)


def _security_group(call: ApiCall) -> None:
    if "GroupName" in call.parameters:
        reason = "Shoal's emulator deletes security groups by GroupId only, not by GroupName"
        raise AwsError("InvalidParameterValue", reason)


def _without_rules(call: ApiCall) -> None:
    """Refuse an operation of S3 that has no rules.

    moto goes by the URL, and takes an operation that it does not know for one that it knows:
    DeleteBucketMetricsConfiguration for DeleteBucket, PutObjectAnnotation for PutObject.
    """
    if call.questions is None:
        raise unknown(f"Shoal's emulator does not emulate s3 {call.operation}")


_OF_LAYERS = (
    *("InitiateLayerUpload", "UploadLayerPart", "CompleteLayerUpload", "GetDownloadUrlForLayer"),
)
GUARDS: Mapping[str, Mapping[str, Guard]] = {
    "ec2": {
        **dict.fromkeys(
            ("RunInstances", "RequestSpotInstances", "CreateFleet"), Refusal("has no instances")
        ),
        "DeleteSecurityGroup": _security_group,
    },
    "logs": {
        "PutSubscriptionFilter": Refusal("delivers no logs to subscriptions"),
        "StartQuery": Refusal("has no Logs Insights queries"),
        "CreateExportTask": Refusal("exports no logs"),
    },
    "s3": {"*": _without_rules, "PutBucketNotificationConfiguration": _notification},
    "sns": {"Subscribe": _subscription},
    "ssm": {"SendCommand": Refusal("has no instances to command")},
    "ecr": {
        "StartImageScan": Refusal("scans no images"),
        **dict.fromkeys(_OF_LAYERS, Refusal("keeps no layers of images")),
    },
}
