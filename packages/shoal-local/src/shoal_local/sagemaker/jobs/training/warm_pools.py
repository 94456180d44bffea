"""Warm pools: instances that are kept after a training job, for the next job that matches.

What a later job finds of an earlier one here is the persistent cache; there are no instances that
would start faster. Sources: API reference, WarmPoolStatus; developer guide, "SageMaker AI Managed
Warm Pools". The guide's quota, 0 until it is raised, is not asked for.
"""

from typing import Any

from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import isolation_refused
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.jobs.base.files import HostPaths
from shoal_local.sagemaker.jobs.base.jobs import TRAINING
from shoal_local.sagemaker.shapes import Document

CACHE_PATH = "/opt/ml/sagemaker/warmpoolcache"
_RESOURCES = ("InstanceCount", "InstanceType", "VolumeSizeInGB", "VolumeKmsKeyId")


def keep_alive_s(request: Document) -> int:
    """Return how long the instances are kept after the job; 0 without a warm pool."""
    return int(request["ResourceConfig"].get("KeepAlivePeriodInSeconds", 0))


def claim(core: Core, document: Document) -> Document:
    """Return what a new job's description has of its pool, and take over a pool that matches."""
    if not keep_alive_s(document):
        return {}
    members: Document = {"WarmPoolStatus": {"Status": "InUse"}}

    def is_match(other: Document) -> bool:
        return _status(other) == "Available" and _matching(other) == _matching(document)

    def take(other: Document) -> None:
        if not is_match(other):  # another job was faster
            raise LookupError
        _end(other, {"Status": "Reused", "ReusedByJob": document["TrainingJobName"]})

    for each in core.store.select(TRAINING.store, is_match):
        try:
            core.store.change(TRAINING.store, each["_name"], take)
        except LookupError:
            continue
        return members | {"_pool_of": each["_name"]}
    return members


def job_ended(document: Document) -> None:
    """Make the job's instances available, unless they never started or may be unhealthy."""
    if "WarmPoolStatus" in document:
        reason = document.get("FailureReason", "")
        healthy = not reason.startswith(("InternalServerError", "CapacityError"))
        is_kept = healthy and "TrainingStartTime" in document
        document["WarmPoolStatus"] = {"Status": "Available" if is_kept else "Terminated"}
        _keep(document)


def update(document: Document, seconds: int) -> None:
    """Keep a pool for another period from its job's end on; 0 ends it."""
    if _status(document) != "Available":
        raise invalid(
            f"The warm pool of training job {document['TrainingJobName']} is not Available; only"
            " then its KeepAlivePeriodInSeconds can be updated."
        )
    document["ResourceConfig"]["KeepAlivePeriodInSeconds"] = seconds
    _keep(document)
    if not seconds:
        _end(document, {"Status": "Terminated"})


def as_of_now(document: Document) -> Document:
    """Return the description of a job whose pool may have expired meanwhile."""
    if "WarmPoolStatus" in document and _status(document) != document["WarmPoolStatus"]["Status"]:
        _end(document, {"Status": "Terminated"}, document["_pool_until"])
    return document


def provide_cache(host: HostPaths, earlier: HostPaths | None) -> None:
    """Give a host the persistent cache, with what the host of an earlier job left there."""
    cache = host.path_of(CACHE_PATH)
    cache.parent.mkdir(parents=True, exist_ok=True)
    if earlier and earlier.path_of(CACHE_PATH).is_dir():
        earlier.path_of(CACHE_PATH).rename(cache)
    cache.mkdir(exist_ok=True)


def cache_variable(document: Document, host: HostPaths) -> dict[str, str]:
    """Return the variable by which a container finds the cache."""
    path = str(host.path_of(CACHE_PATH)) if isolation_refused() else CACHE_PATH
    return {"SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY": path} if keep_alive_s(document) else {}


def _keep(document: Document) -> None:
    document["_pool_until"] = document["TrainingEndTime"] + keep_alive_s(document)


def _end(document: Document, status: Document, at: float | None = None) -> None:
    seconds = round((at or names.now()) - document["TrainingEndTime"])
    document["WarmPoolStatus"] = status | {"ResourceRetainedBillableTimeInSeconds": max(0, seconds)}


def _status(document: Document) -> str:
    status = str(document.get("WarmPoolStatus", {}).get("Status", ""))
    is_over = status == "Available" and names.now() >= document["_pool_until"]
    return "Terminated" if is_over else status


def _matching(document: Document) -> list[Any]:
    """Return what two jobs must have in common to use one pool."""
    vpc = document.get("VpcConfig", {})
    return [
        document["RoleArn"],
        document.get("EnableInterContainerTrafficEncryption"),
        *(document["ResourceConfig"].get(key) for key in _RESOURCES),
        *(vpc.get(key) for key in ("SecurityGroupIds", "Subnets")),
    ]
