"""Where moto is stricter or slower than AWS: bucket policies whose conditions it cannot read, and imports at the first request."""

from __future__ import annotations

import json
import logging
from typing import Any

from moto import backends
from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket

from emulator.control.policies import Principal, decision

EVERYBODY = Principal("AWS", "anonymous")
# Requests come over plain HTTP on loopback, which stands for the TLS that buckets ask for on AWS.
CONTEXT = {"aws:SecureTransport": "true"}
RESULTS = {"Allow": PermissionResult.PERMITTED, "Deny": PermissionResult.DENIED, None: PermissionResult.NEUTRAL}
WARM = ("s3", "iam", "sts", "ssm", "kms", "ec2", "ecr", "sqs", "events", "logs", "cloudwatch")

log = logging.getLogger(__name__)


def bucket_permission(bucket: Any, action: str, resource: str) -> PermissionResult:
    """What the bucket's policy says to everybody. moto denies whenever a statement has a condition that is not met."""
    if not bucket.policy:
        return PermissionResult.NEUTRAL
    return RESULTS[decision(json.loads(bucket.policy), EVERYBODY, action, resource, CONTEXT)]


def use_own_bucket_policies() -> None:
    """Make moto's S3 ask `bucket_permission`."""
    FakeBucket.get_permission = bucket_permission  # type: ignore[method-assign,assignment]


def warm_up(account: str, region: str) -> None:
    """Import services that will be asked for; the first request to EC2 or Logs would wait a second for it."""
    for name in WARM:
        try:
            backend = backends.get_backend(name)[account]  # type: ignore[call-overload]
            backend["aws" if name in {"s3", "iam", "sts"} else region]
        except (ImportError, KeyError):
            log.exception("warming up %s failed", name)
