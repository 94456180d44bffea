"""The events that S3 sends to EventBridge for buckets that ask for them.

moto would match and deliver the event itself, past the policies of its targets. Source of the
fields: S3 user guide, "EventBridge event message structure".
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from moto.s3 import notifications

Emit = Callable[[str, str, Mapping[str, Any]], object]
"""Takes an account, the bucket's region, and an event."""

_DETAIL_TYPES = {"ObjectCreated": "Object Created", "ObjectRemoved": "Object Deleted"}
_REASONS = {
    "ObjectCreated:Put": "PutObject",
    "ObjectCreated:Post": "POST Object",
    "ObjectCreated:Copy": "CopyObject",
    "ObjectCreated:CompleteMultipartUpload": "CompleteMultipartUpload",
    "ObjectRemoved:Delete": "DeleteObject",
}
_count = itertools.count()


def send_object_events(emit: Emit) -> None:
    """Make moto's S3 pass every event for EventBridge to `emit`."""

    def send(account_id: str, bucket: Any, event_name: str, key: Any) -> None:
        if entry := entry_of(
            account_id, bucket.name, str(getattr(event_name, "value", event_name)), key
        ):
            emit(account_id, bucket.region_name, entry)

    notifications._send_event_bridge_message = send


def entry_of(account: str, bucket: str, event_name: str, key: Any) -> dict[str, Any] | None:
    """Return the event for `s3:ObjectCreated:Put` and the like; None for kinds not sent."""
    kind, _, how = event_name.removeprefix("s3:").partition(":")
    if kind not in _DETAIL_TYPES:
        return None
    about = {
        "key": key.name,
        "size": key.size,
        "etag": key.etag.strip('"'),
        "sequencer": f"{time.time_ns():016X}{next(_count):04X}",
    }
    version = {"version-id": key.version_id} if key.version_id and key.version_id != "null" else {}
    detail = {
        "version": "0",
        "bucket": {"name": bucket},
        "object": about | version,
        "request-id": uuid.uuid4().hex[:16].upper(),
        "requester": account,
        "source-ip-address": "127.0.0.1",
        "reason": _REASONS.get(f"{kind}:{how}", how),
    }
    return {
        "source": "aws.s3",
        "detail-type": _DETAIL_TYPES[kind],
        "detail": detail,
        "resources": [f"arn:aws:s3:::{bucket}"],
    }
