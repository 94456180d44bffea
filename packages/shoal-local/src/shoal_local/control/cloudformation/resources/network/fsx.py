"""AWS::FSx: file systems for Lustre and their data repository associations
(`shoal_local.control.fsx`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    names,
    undo_on_failure,
)
from shoal_local.control.cloudformation.resources.network.ec2 import as_bool

LUSTRE_MEMBERS = names(
    "DeploymentType PerUnitStorageThroughput DataCompressionType WeeklyMaintenanceStartTime"
)
_S3_MEMBERS = names("AutoImportPolicy AutoExportPolicy")


class FileSystem(ResourceType):
    type_name = "AWS::FSx::FileSystem"
    properties = names(
        "FileSystemType FileSystemTypeVersion StorageCapacity StorageType SubnetIds"
        " SecurityGroupIds KmsKeyId LustreConfiguration Tags"
    )
    replaced_by = names(
        "FileSystemType FileSystemTypeVersion StorageType SubnetIds SecurityGroupIds KmsKeyId"
    )

    def check(self, request: Request) -> None:
        super().check(request)
        _check_members(request, "LustreConfiguration", LUSTRE_MEMBERS)

    def create(self, request: Request) -> Created:
        arguments = request.only(
            "FileSystemType",
            "FileSystemTypeVersion",
            "StorageType",
            "SubnetIds",
            "SecurityGroupIds",
            "KmsKeyId",
        )
        capacity = (
            {"StorageCapacity": int(request["StorageCapacity"])}
            if "StorageCapacity" in request.properties
            else {}
        )
        response = request.client("fsx").create_file_system(
            **arguments, **capacity, LustreConfiguration=_lustre(request), **_tags(request)
        )
        file_system = response["FileSystem"]
        return Created(
            file_system["FileSystemId"],
            {
                "DNSName": file_system["DNSName"],
                "LustreMountName": file_system["LustreConfiguration"]["MountName"],
                "ResourceARN": file_system["ResourceARN"],
            },
        )

    def update(self, request: Request) -> Created:
        changes: dict[str, Any] = {}
        if request.changed("StorageCapacity"):
            changes["StorageCapacity"] = int(request["StorageCapacity"])
        if request.changed("LustreConfiguration"):
            changes["LustreConfiguration"] = {
                key: value for key, value in _lustre(request).items() if key != "DeploymentType"
            }
        if changes:
            request.client("fsx").update_file_system(FileSystemId=request.physical_id, **changes)
        request.retag_resource("fsx", ResourceARN=request.attributes["ResourceARN"])
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("fsx").delete_file_system(FileSystemId=request.physical_id)

    def needs_replacement(self, request: Request) -> bool:
        deployment_types = [
            (properties.get("LustreConfiguration") or {}).get("DeploymentType")
            for properties in (request.old, request.properties)
        ]
        return super().needs_replacement(request) or deployment_types[0] != deployment_types[1]


class DataRepositoryAssociation(ResourceType):
    type_name = "AWS::FSx::DataRepositoryAssociation"
    properties = names(
        "FileSystemId FileSystemPath DataRepositoryPath BatchImportMetaDataOnCreate"
        " ImportedFileChunkSize S3 Tags"
    )
    replaced_by = names(
        "FileSystemId FileSystemPath DataRepositoryPath BatchImportMetaDataOnCreate"
    )

    def check(self, request: Request) -> None:
        super().check(request)
        _check_members(request, "S3", _S3_MEMBERS)

    def create(self, request: Request) -> Created:
        fsx, arguments = (
            request.client("fsx"),
            request.only("FileSystemId", "FileSystemPath", "DataRepositoryPath", "S3"),
        )
        batch_import = {
            "BatchImportMetaDataOnCreate": as_bool(
                request.get("BatchImportMetaDataOnCreate", False)
            )
        }
        response = fsx.create_data_repository_association(
            **arguments, **batch_import, **_chunk_size(request), **_tags(request)
        )["Association"]
        association_id = response["AssociationId"]
        with undo_on_failure(
            lambda: fsx.delete_data_repository_association(AssociationId=association_id)
        ):
            _require_available(fsx, association_id)
        return Created(
            association_id,
            {"AssociationId": association_id, "ResourceARN": response["ResourceARN"]},
        )

    def update(self, request: Request) -> Created:
        if request.changed("S3", "ImportedFileChunkSize"):
            request.client("fsx").update_data_repository_association(
                AssociationId=request.physical_id, S3=request.get("S3", {}), **_chunk_size(request)
            )
        request.retag_resource("fsx", ResourceARN=request.attributes["ResourceARN"])
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        fsx = request.client("fsx")
        fsx.delete_data_repository_association(
            AssociationId=request.physical_id, DeleteDataInFileSystem=False
        )


def _require_available(fsx: Any, association_id: str) -> None:
    """Raise ResourceError, with FSx's reason, if the association cannot reach its bucket."""
    (association,) = fsx.describe_data_repository_associations(AssociationIds=[association_id])[
        "Associations"
    ]
    if association["Lifecycle"] != "AVAILABLE":
        reason = association.get("FailureDetails", {}).get("Message", "no reason given")
        raise ResourceError(
            f"the data repository association is {association['Lifecycle']}: {reason}"
        )


def _check_members(request: Request, name: str, emulated: frozenset[str]) -> None:
    unknown = sorted(set(request.get(name) or {}) - emulated)
    if unknown:
        raise ResourceError(
            f"Shoal's emulator does not emulate the property {name}.{unknown[0]} of"
            f" {request.type_name}"
        )


def _lustre(request: Request) -> Mapping[str, Any]:
    configuration = dict(request.get("LustreConfiguration") or {})
    if "PerUnitStorageThroughput" in configuration:
        configuration["PerUnitStorageThroughput"] = int(configuration["PerUnitStorageThroughput"])
    return configuration


def _chunk_size(request: Request) -> dict[str, int]:
    return {name: int(value) for name, value in request.only("ImportedFileChunkSize").items()}


def _tags(request: Request) -> dict[str, Any]:
    """Return the tags; FSx refuses an empty list."""
    return {"Tags": request.tags()} if request.tags() else {}


TYPES: tuple[ResourceType, ...] = (FileSystem(), DataRepositoryAssociation())
