"""Where moto differs from AWS in a way that matters: bucket policies whose conditions it cannot
read, access logs that it writes at once (a bucket that was just emptied would not be empty),
percentiles of metrics, digests of images, and imports that the first request would wait for.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Sequence
from typing import Any

from moto import backends
from moto.cloudwatch.models import Statistics
from moto.ecr.models import Image
from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket, S3Backend

from shoal_local.control.metric_store import nearest_rank
from shoal_local.control.policies import Principal, decision

ANONYMOUS = Principal("AWS", "anonymous")
# Requests come over plain HTTP on loopback, which stands for the TLS that buckets ask for on AWS.
CONTEXT = {"aws:SecureTransport": "true"}
RESULTS = {
    "Allow": PermissionResult.PERMITTED,
    "Deny": PermissionResult.DENIED,
    None: PermissionResult.NEUTRAL,
}
WARM = ("s3", "iam", "sts", "ssm", "kms", "ec2", "ecr", "sqs", "events", "logs", "cloudwatch")

_statistic_of_moto = Statistics.get_statistics_for_type

log = logging.getLogger(__name__)


def bucket_permission(bucket: Any, action: str, resource: str) -> PermissionResult:
    """What the bucket's policy says to everybody. moto denies whenever a statement has a condition
    that is not met.
    """
    if not bucket.policy:
        return PermissionResult.NEUTRAL
    return RESULTS[decision(json.loads(bucket.policy), ANONYMOUS, action, resource, CONTEXT)]


def no_access_log(_backend: Any, _request: Any, _bucket_name: str) -> None:
    """AWS delivers access logs hours later, if at all; here there are none."""


def patch_s3() -> None:
    """Make moto's S3 ask `bucket_permission` and write no access logs."""
    S3Backend.log_incoming_request = no_access_log  # type: ignore[method-assign,assignment]
    FakeBucket.get_permission = bucket_permission  # type: ignore[method-assign,assignment]


def statistic(statistics: Statistics, name: str) -> Any:
    """What moto's Statistics knows, and percentiles (`p99`), which it leaves out: the nearest rank
    of the values.
    """
    value = _statistic_of_moto(statistics, name)
    values = statistics.metric_single_values_list
    return nearest_rank(values, name) if value is None and values else value


def patch_cloudwatch() -> None:
    """Make moto's CloudWatch answer with percentiles."""
    Statistics.get_statistics_for_type = statistic  # type: ignore[method-assign,assignment]


def digest_of_manifest(image: Image) -> None:
    """Of an image for which nobody gave one: SHA-256 of its manifest, as of the OCI image
    specification. moto hashes names of layers.
    """
    image._image_digest = (
        f"sha256:{hashlib.sha256(image.image_manifest.encode(errors='surrogatepass')).hexdigest()}"
    )


def patch_ecr() -> None:
    """Make moto's ECR know an image by the digest of its manifest."""
    Image._create_digest = digest_of_manifest  # type: ignore[method-assign,assignment]


def warm_up(accounts: Sequence[str], region: str) -> None:
    """Import services that will be asked for, and make what they keep of each account; the first
    request to EC2 would wait a second.
    """
    for account, name in itertools.product(accounts, WARM):
        try:
            backend = backends.get_backend(name)[account]  # type: ignore[call-overload]
            backend["aws" if name in {"s3", "iam", "sts"} else region]
        except (ImportError, KeyError):
            log.exception("warming up %s failed", name)
