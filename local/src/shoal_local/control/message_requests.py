"""Refuse requests to SNS and SQS that moto answers with a 500 or with a success, and AWS does not.

Codes and words: answers of AWS that LocalStack recorded (`tests/aws/services/{sns,sqs}` of its
repository); what is marked below is from the API references only.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from moto.sqs.models import sqs_backends

from shoal_local.control import event_patterns
from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError

ARN_ELEMENTS = 6
NAME_IS_FREE_AFTER_S = 60.0
_RANGES: Mapping[str, tuple[int, int]] = {
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1024, 1024 * 1024),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, 43_200),
}
"""Of queues' attributes (API reference, CreateQueue)."""
_NO_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check_subscription(call: ApiCall) -> None:
    """Refuse what is no topic, and a filter policy that is none."""
    arn = call.parameters["TopicArn"]
    if (elements := len(arn.split(":"))) < ARN_ELEMENTS:
        raise _invalid(
            f"TopicArn Reason: An ARN must have at least {ARN_ELEMENTS} elements, not {elements}"
        )
    attributes = call.parameters.get("Attributes") or {}
    if attributes.get("FilterPolicy"):
        _check_filter(attributes["FilterPolicy"], "Attributes Reason: ")


def check_attribute(call: ApiCall) -> None:
    """Refuse a filter policy that is none."""
    value = call.parameters.get("AttributeValue")
    if call.parameters["AttributeName"] == "FilterPolicy" and value:
        _check_filter(value, "")


def _check_filter(text: str, where: str) -> None:
    try:
        policy = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{where}FilterPolicy: failed to parse JSON. {error}") from error
    try:
        event_patterns.check_object(policy)
    except event_patterns.PatternError as error:
        raise _invalid(f"{where}FilterPolicy: {error}") from error


def _invalid(reason: str) -> AwsError:
    return AwsError("InvalidParameter", f"Invalid parameter: {reason}")


def check_queue(call: ApiCall) -> None:
    """Refuse attributes out of their range, and a name that was deleted just now.

    Source of the second: SQS API reference, CreateQueue.
    """
    for name, (low, high) in _RANGES.items():
        value = (call.parameters.get("Attributes") or {}).get(name)
        if value is not None and not (value.isdecimal() and low <= int(value) <= high):
            raise AwsError(
                "InvalidAttributeValue", f"Invalid value for the parameter {name}. Reason: {value}"
            )
    deleted_s = _deleted(call).get(call.parameters.get("QueueName", ""))
    if deleted_s is not None and time.monotonic() - deleted_s < NAME_IS_FREE_AFTER_S:
        raise AwsError(
            "AWS.SimpleQueueService.QueueDeletedRecently",
            "You must wait 60 seconds after deleting a queue before you can create another with"
            " the same name.",
        )


def note_deletion(call: ApiCall) -> None:
    """Remember when a queue is deleted."""
    name = call.parameters["QueueUrl"].rpartition("/")[2]
    if name in sqs_backends[call.account][call.region].queues:
        _deleted(call)[name] = time.monotonic()


def _deleted(call: ApiCall) -> dict[str, float]:
    """Return the seconds of the clock at which queues were deleted, by name.

    They are kept with moto's queues, which a new emulator in the same process forgets.
    """
    backend: Any = sqs_backends[call.account][call.region]
    deleted: dict[str, float] = backend.__dict__.setdefault("_shoal_deleted", {})
    return deleted


def check_message(call: ApiCall) -> None:
    """Refuse a message without a body, or with characters that are no text."""
    for entry in call.parameters.get("Entries") or [call.parameters]:
        body = entry.get("MessageBody")
        if not body:
            raise AwsError(
                "MissingParameter", "The request must contain the parameter MessageBody."
            )
        if _NO_TEXT.search(body):
            raise AwsError(
                "InvalidMessageContents",
                "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to"
                " #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
            )


GUARDS: Mapping[str, Mapping[str, Callable[[ApiCall], None]]] = {
    "sns": {"Subscribe": check_subscription, "SetSubscriptionAttributes": check_attribute},
    "sqs": {
        **dict.fromkeys(("CreateQueue", "SetQueueAttributes"), check_queue),
        **dict.fromkeys(("SendMessage", "SendMessageBatch"), check_message),
        "DeleteQueue": note_deletion,
    },
}
