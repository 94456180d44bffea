"""Checks of CreateFileSystem and CreateDataRepositoryAssociation: what FSx refuses, and what is not
emulated.

Source: Amazon FSx API reference (as in botocore's model), CreateFileSystem,
CreateFileSystemLustreConfiguration and CreateDataRepositoryAssociation. The codes are documented;
where the reference gives no wording, the message is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.errors import AwsError

LUSTRE_MEMBERS = frozenset(
    {
        "DeploymentType",
        "PerUnitStorageThroughput",
        "DataCompressionType",
        "WeeklyMaintenanceStartTime",
    }
)
"""The emulated members of LustreConfiguration: no backups, EFA, caches, logs, nor the older way to
link S3.
"""
_SMALL_GIB = (1200, 2400)
_MAX_ASSOCIATIONS = 8
_EVENTS = {"NEW", "CHANGED", "DELETED"}


@dataclass(frozen=True)
class Deployment:
    """What a DeploymentType allows on SSD storage.

    `throughputs` in MB/s per TiB; without any, the throughput is fixed.
    """

    step_gib: int
    throughputs: tuple[int, ...]
    versions: tuple[str, ...]
    default_version: str
    takes_key: bool = True


DEPLOYMENTS: Mapping[str, Deployment] = {
    "SCRATCH_1": Deployment(3600, (), ("2.10", "2.12", "2.15"), "2.10", takes_key=False),
    "SCRATCH_2": Deployment(2400, (), ("2.10", "2.12", "2.15"), "2.10", takes_key=False),
    "PERSISTENT_1": Deployment(2400, (50, 100, 200), ("2.10", "2.12", "2.15"), "2.10"),
    "PERSISTENT_2": Deployment(2400, (125, 250, 500, 1000), ("2.12", "2.15"), "2.12"),
}


def bad_request(message: str) -> AwsError:
    """Return FSx's generic refusal."""
    return AwsError("BadRequest", message)


def not_emulated(what: str) -> AwsError:
    """Return the refusal of something that FSx has and this emulator lacks."""
    return AwsError("BadRequest", f"Shoal's emulator does not emulate {what} of FSx")


def check_file_system(request: Mapping[str, Any]) -> Deployment:
    """Return what the deployment type allows.

    Raises AwsError unless the request is for Lustre on SSD and FSx would take it.
    """
    for name in (
        "BackupId",
        "WindowsConfiguration",
        "OntapConfiguration",
        "OpenZFSConfiguration",
        "NetworkType",
    ):
        if request.get(name):
            raise not_emulated(name)
    if request["FileSystemType"] != "LUSTRE":
        raise not_emulated(f"FileSystemType {request['FileSystemType']}")
    if request.get("StorageType", "SSD") != "SSD":
        raise not_emulated(f"StorageType {request['StorageType']}")
    lustre = request.get("LustreConfiguration") or {}
    unknown = sorted(
        key for key, value in lustre.items() if value is not None and key not in LUSTRE_MEMBERS
    )
    if unknown:
        raise not_emulated(f"LustreConfiguration.{unknown[0]}")
    kind = lustre.get("DeploymentType", "SCRATCH_1")
    if kind not in DEPLOYMENTS:
        raise bad_request(f"DeploymentType {kind} is not one of {', '.join(DEPLOYMENTS)}")
    deployment = DEPLOYMENTS[kind]
    _check_version(request.get("FileSystemTypeVersion"), kind, deployment)
    check_capacity(request.get("StorageCapacity"), kind)
    check_throughput(lustre.get("PerUnitStorageThroughput"), kind)
    if request.get("KmsKeyId") and not deployment.takes_key:
        raise bad_request(
            f"KmsKeyId is for PERSISTENT_1 and PERSISTENT_2 only: {kind} is encrypted with a key of"
            " the service"
        )
    if len(request["SubnetIds"]) != 1:
        raise AwsError(
            "InvalidNetworkSettings", "provide exactly one subnet ID for a Lustre file system"
        )
    return deployment


def _check_version(version: str | None, kind: str, deployment: Deployment) -> None:
    if version is not None and version not in deployment.versions:
        raise bad_request(
            f"FileSystemTypeVersion {version} is not one of those of {kind}:"
            f" {', '.join(deployment.versions)}"
        )


def check_capacity(capacity_gib: int | None, kind: str) -> None:
    """Raise AwsError unless FSx has file systems of this kind and size."""
    step = DEPLOYMENTS[kind].step_gib
    if capacity_gib is None or not (
        capacity_gib in _SMALL_GIB or (capacity_gib > 0 and capacity_gib % step == 0)
    ):
        raise bad_request(
            f"StorageCapacity {capacity_gib} is not valid for {kind}: 1200 GiB, 2400 GiB, and"
            f" increments of {step} GiB"
        )


def check_throughput(throughput: int | None, kind: str) -> None:
    """Raise AwsError unless this kind of file system can have the throughput (MB/s per TiB)."""
    allowed = DEPLOYMENTS[kind].throughputs
    if throughput is None and not allowed:
        return
    if not allowed:
        raise bad_request(
            f"PerUnitStorageThroughput is for PERSISTENT_1 and PERSISTENT_2 only, not for {kind}"
        )
    if throughput not in allowed:
        message = (
            f"PerUnitStorageThroughput {throughput} is not valid for {kind}:"
            f" {', '.join(map(str, allowed))} MB/s/TiB"
        )
        raise AwsError("InvalidPerUnitStorageThroughput", message)


def check_association(
    request: Mapping[str, Any], kind: str, version: str, others: Iterable[Mapping[str, Any]]
) -> None:
    """Raise AwsError unless the file system may have this association next to `others`."""
    if kind == "SCRATCH_1" or version == "2.10":
        message = (
            "data repository associations need Lustre 2.12 or 2.15, and are not for SCRATCH_1;"
            f" this is {kind} with {version}"
        )
        raise AwsError("UnsupportedOperation", message)
    if (
        not request["DataRepositoryPath"].startswith("s3://")
        or not request["DataRepositoryPath"][5:].partition("/")[0]
    ):
        raise bad_request(
            f"DataRepositoryPath {request['DataRepositoryPath']} is not of the form"
            " s3://bucket-name/prefix/"
        )
    path, other_paths = (
        folder_of(request.get("FileSystemPath", "/")),
        [folder_of(other["FileSystemPath"]) for other in others],
    )
    if len(other_paths) >= _MAX_ASSOCIATIONS:
        raise AwsError(
            "ServiceLimitExceeded",
            f"a file system has at most {_MAX_ASSOCIATIONS} data repository associations",
        )
    for other in other_paths:
        if path.startswith(other) or other.startswith(path):
            raise bad_request(
                f"FileSystemPath {path} overlaps with {other} of another data repository"
                " association"
            )
    check_events(request.get("S3"))


def folder_of(file_system_path: str) -> str:
    """Return `/ns1` and `/ns1/` as `/ns1/`; raise AwsError unless it is a path from the root."""
    if not file_system_path.startswith("/") or ".." in file_system_path.split("/"):
        raise bad_request(f"FileSystemPath {file_system_path} needs a leading slash, and no ..")
    return "/" + "".join(f"{part}/" for part in file_system_path.split("/") if part)


def check_events(policies: Mapping[str, Any] | None) -> None:
    """Raise AwsError for events that FSx does not have."""
    for name, policy in (policies or {}).items():
        for event in (policy or {}).get("Events") or []:
            if event not in _EVENTS:
                raise bad_request(f"{name}.Events: {event} is not one of NEW, CHANGED, DELETED")
