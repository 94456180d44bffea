"""Patch moto where it differs from AWS in a way that matters.

- Bucket policies: moto cannot read their conditions.
- Access logs: moto writes them at once, so that a bucket that was just emptied is not empty.
- Metrics have no percentiles, and images no digest of their manifest.
- IAM reads all of AWS's policies at its start, whether anybody asks for one or not.
- Each request looks up the methods of a class again, lists moto's folder, and compares the host
  with the addresses of all services.
- S3's bodies, checksums and lists of versions: see `control.objects`.
"""

import hashlib
import json
import threading
from functools import cache
from typing import Any

from flask import Flask
from moto.cloudwatch.models import Statistics
from moto.core import responses
from moto.core.utils import method_names_from_class
from moto.ecr.models import Image
from moto.iam.access_control import PermissionResult
from moto.iam.models import IAMBackend, ManagedPolicy
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import FakeBucket, S3Backend

from shoal_local.control import kept_services, object_bodies, objects
from shoal_local.control import schedules as scheduler
from shoal_local.control.alarms import nearest_rank
from shoal_local.control.identity.policies import Principal, decision

Patch = tuple[object, str, Any]
"""A class or module of moto, the name of an attribute, and its new value."""
ANONYMOUS = Principal("AWS", "anonymous")
# Requests come over plain HTTP on loopback, which stands for the TLS that buckets ask for on AWS.
CONTEXT = {"aws:SecureTransport": "true"}
RESULTS = {
    "Allow": PermissionResult.PERMITTED,
    "Deny": PermissionResult.DENIED,
    None: PermissionResult.NEUTRAL,
}

_aws_policies_of_moto = IAMBackend._init_aws_policies
_statistic_of_moto = Statistics.get_statistics_for_type


def bucket_permission(bucket: Any, action: str, resource: str) -> PermissionResult:
    """Return what a bucket's policy says to strangers; moto denies at any condition not met."""
    if not bucket.policy:
        return PermissionResult.NEUTRAL
    return RESULTS[decision(json.loads(bucket.policy), ANONYMOUS, action, resource, CONTEXT)]


def statistic(statistics: Statistics, name: str) -> Any:
    """Return a statistic, or a percentile (`p99`), which moto lacks, as the nearest rank."""
    value = _statistic_of_moto(statistics, name)
    values = statistics.metric_single_values_list
    return nearest_rank(values, name) if value is None and values else value


class ManagedPolicies:
    """`managed_policies` of moto's IAM: policies by ARN, AWS's own from the first look on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __get__(self, backend: IAMBackend, _owner: object) -> dict[str, ManagedPolicy]:
        with self._lock:
            if "managed_policies" not in vars(backend):
                policies = _aws_policies_of_moto(backend)
                vars(backend)["managed_policies"] = {each.arn: each for each in policies}
            policies_by_arn: dict[str, ManagedPolicy] = vars(backend)["managed_policies"]
            return policies_by_arn

    def __set__(self, _backend: IAMBackend, _none: object) -> None:
        """Keep nothing: moto's constructor sets what it has read, which is nothing now."""


def digest_of_manifest(image: Image) -> None:
    """Set an image's missing digest: SHA-256 of its manifest (OCI), not of names of layers."""
    image._image_digest = (
        f"sha256:{hashlib.sha256(image.image_manifest.encode(errors='surrogatepass')).hexdigest()}"
    )


PATCHES: tuple[Patch, ...] = (
    # AWS delivers access logs hours later, if at all
    (S3Backend, "log_incoming_request", lambda *_: None),
    (FakeBucket, "get_permission", bucket_permission),
    (Statistics, "get_statistics_for_type", statistic),
    # 5 MB, read when somebody asks for a managed policy
    (IAMBackend, "_init_aws_policies", lambda _backend: []),
    (IAMBackend, "managed_policies", ManagedPolicies()),
    (Image, "_create_digest", digest_of_manifest),
    (responses, "method_names_from_class", cache(method_names_from_class)),
    *kept_services.PATCHES,
    *object_bodies.PATCHES,
    *objects.PATCHES,
    *scheduler.PATCHES,
)


def patch_moto() -> None:
    """Replace attributes of moto's classes and modules."""
    for owner, name, value in PATCHES:
        setattr(owner, name, value)


class MotoApplication(DomainDispatcherApplication):
    """moto's server for all services."""

    def __init__(self) -> None:
        super().__init__(_application_of)
        self._backends: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        """Return the service whose address is `host`, or None; called with moto's lock held."""
        if host not in self._backends:
            self._backends[host] = super().get_backend_for_host(host)
        return self._backends[host]


def _application_of(service: Any) -> Flask:
    """Return moto's application of a service; an exception leaves it as one.

    Flask's debugging, which moto switches on, makes a class for each form that is read.
    """
    application = create_backend_app(service)
    application.debug = False
    application.config["PROPAGATE_EXCEPTIONS"] = True
    return application
