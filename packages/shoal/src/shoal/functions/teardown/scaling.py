"""Deregisters the scalable targets of endpoints, so that Application Auto Scaling neither changes
nor keeps what is deleted.

DeleteEndpoint does the same for a caller with the permission (SageMaker developer guide, "Delete
endpoints configured for auto scaling"). Here it happens first, and explicitly: an endpoint that is
being scaled is Updating, and cannot be deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

NAMESPACE = "sagemaker"
_IDENTITY = ("ServiceNamespace", "ResourceId", "ScalableDimension")

log = logging.getLogger()


def stop_scaling(scaling: Any, endpoints: Collection[str], deregistered: list[str]) -> bool:
    """Return whether no variant of the endpoints is a scalable target any more.

    `scaling` is a client of Application Auto Scaling; `deregistered` gets what was deregistered
    now, as scalable-target/ID. An error is logged and keeps nothing else from being deleted:
    endpoints cost more than their targets.
    """
    try:
        for target in _targets(scaling, endpoints):
            _deregister(scaling, target, deregistered)
    except (ClientError, BotoCoreError):
        log.exception("scalable targets of %s", sorted(endpoints))
        return False
    return True


def _targets(scaling: Any, endpoints: Collection[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the targets of the endpoints, whose names may be in lower case.

    All targets are listed: a target may outlive the variant that it is named after.
    """
    ours = tuple(f"endpoint/{name}/variant/".lower() for name in endpoints)
    for page in scaling.get_paginator("describe_scalable_targets").paginate(
        ServiceNamespace=NAMESPACE
    ):
        yield from (
            target
            for target in page["ScalableTargets"]
            if target["ResourceId"].lower().startswith(ours)
        )


def _deregister(scaling: Any, target: Mapping[str, Any], deregistered: list[str]) -> None:
    """Deregister a target with its policies and scheduled actions (API reference,
    DeregisterScalableTarget).
    """
    try:
        scaling.deregister_scalable_target(**{key: target[key] for key in _IDENTITY})
    except scaling.exceptions.ObjectNotFoundException:
        return
    deregistered.append(f"scalable-target/{target['ResourceId']}")
