"""The file systems of the account, their associations, and the folders that jobs mount."""

from __future__ import annotations

import secrets
import shutil
import string
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.control.fsx.checks import (
    bad_request,
    check_association,
    check_capacity,
    check_events,
    check_file_system,
    check_throughput,
    folder_of,
)
from shoal_local.control.fsx.contents import Contents, split_repository
from shoal_local.control.fsx.linked_role import LinkedRole
from shoal_local.control.fsx.network import closed_between
from shoal_local.control.identity.clients import Clients
from shoal_local.control.identity.identity import Identity, error_of
from shoal_local.errors import AwsError

_MOUNT_NAME = string.ascii_lowercase + string.digits
Document = dict[str, Any]


@dataclass
class FileSystem:
    """One file system: `document` as DescribeFileSystems answers it, and what only the service
    knows.
    """

    document: Document
    security_group_ids: Sequence[str]
    folder: Path
    associations: dict[str, Association] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def id(self) -> str:
        return str(self.document["FileSystemId"])

    @property
    def kind(self) -> str:
        return str(self.document["LustreConfiguration"]["DeploymentType"])


@dataclass
class Association:
    """One data repository association and the files that it imports."""

    document: Document
    contents: Contents

    @property
    def events(self) -> list[str]:
        policy = (self.document.get("S3") or {}).get("AutoImportPolicy") or {}
        return list(policy.get("Events") or [])


@dataclass(frozen=True)
class Mount:
    """A client that mounts a directory, `/<mount name>/...`, from its place in the network."""

    file_system_id: str
    directory: str
    subnet_ids: Sequence[str]
    security_group_ids: Sequence[str]


@dataclass
class FileSystems:
    """Each file system is a folder below `folder`, which is deleted with it."""

    identity: Identity
    clients: Clients
    folder: Path
    _all: dict[str, FileSystem] = field(default_factory=dict)

    def create(self, request: Mapping[str, Any]) -> Document:
        """Create a file system and return its description."""
        deployment = check_file_system(request)
        document = self._document(
            request, deployment.default_version, self._check_references(request)
        )
        file_system = FileSystem(
            document,
            list(request.get("SecurityGroupIds") or []),
            self.folder / document["FileSystemId"],
        )
        file_system.folder.mkdir(parents=True)
        self._all[file_system.id] = file_system
        return {**document, "Lifecycle": "CREATING"}

    def _document(self, request: Mapping[str, Any], version: str, vpc_id: str) -> Document:
        file_system_id = f"fs-{secrets.token_hex(9)[:17]}"
        lustre = {
            "DeploymentType": "SCRATCH_1",
            "DataCompressionType": "NONE",
            **(request.get("LustreConfiguration") or {}),
        }
        key = {"KmsKeyId": request["KmsKeyId"]} if request.get("KmsKeyId") else {}
        return {
            "OwnerId": self.identity.account,
            "CreationTime": datetime.now(UTC),
            "FileSystemId": file_system_id,
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": request.get("FileSystemTypeVersion") or version,
            "Lifecycle": "AVAILABLE",
            "StorageCapacity": request["StorageCapacity"],
            "StorageType": "SSD",
            "VpcId": vpc_id,
            "SubnetIds": list(request["SubnetIds"]),
            "NetworkInterfaceIds": [],
            "DNSName": f"{file_system_id}.fsx.{self.identity.region}.amazonaws.com",
            "ResourceARN": self._arn(f"file-system/{file_system_id}"),
            "Tags": list(request.get("Tags") or []),
            "LustreConfiguration": {
                **lustre,
                "MountName": _mount_name(lustre["DeploymentType"]),
                "CopyTagsToBackups": False,
            },
            **key,
        }

    def get(self, file_system_id: str) -> FileSystem:
        """Return the file system; raise AwsError FileSystemNotFound when it does not exist."""
        if file_system_id not in self._all:
            raise AwsError("FileSystemNotFound", f"File system '{file_system_id}' does not exist.")
        return self._all[file_system_id]

    def all(self) -> list[FileSystem]:
        return list(self._all.values())

    def update(self, request: Mapping[str, Any]) -> Document:
        """Let it grow, or change Lustre's settings that can change."""
        file_system = self.get(request["FileSystemId"])
        lustre = dict(request.get("LustreConfiguration") or {})
        capacity = request.get("StorageCapacity")
        if capacity is not None:
            check_capacity(capacity, file_system.kind)
            current = file_system.document["StorageCapacity"]
            if capacity < current:
                raise bad_request(f"StorageCapacity can only grow; it is {current} GiB")
            file_system.document["StorageCapacity"] = capacity
        check_throughput(lustre.get("PerUnitStorageThroughput"), file_system.kind)
        file_system.document["LustreConfiguration"].update(
            {key: value for key, value in lustre.items() if value is not None}
        )
        return file_system.document

    def delete(self, file_system_id: str) -> Document:
        file_system = self.get(file_system_id)
        with file_system.lock:
            self._role(file_system_id).delete()
            shutil.rmtree(file_system.folder, ignore_errors=True)
            del self._all[file_system_id]
        return {"FileSystemId": file_system_id, "Lifecycle": "DELETING"}

    def associate(self, request: Mapping[str, Any]) -> Document:
        """Create an association and return its description; the import is complete when this
        returns.
        """
        file_system = self.get(request["FileSystemId"])
        others = [each.document for each in file_system.associations.values()]
        check_association(
            request, file_system.kind, file_system.document["FileSystemTypeVersion"], others
        )
        association_id, path = (
            f"dra-{secrets.token_hex(9)[:17]}",
            folder_of(request.get("FileSystemPath") or "/"),
        )
        document: Document = {
            "AssociationId": association_id,
            "ResourceARN": self._arn(f"association/{file_system.id}/{association_id}"),
            "FileSystemId": file_system.id,
            "Lifecycle": "AVAILABLE",
            "FileSystemPath": path,
            "DataRepositoryPath": request["DataRepositoryPath"],
            "BatchImportMetaDataOnCreate": bool(request.get("BatchImportMetaDataOnCreate")),
            "ImportedFileChunkSize": request.get("ImportedFileChunkSize") or 1024,
            "S3": dict(request.get("S3") or {}),
            "Tags": list(request.get("Tags") or []),
            "CreationTime": datetime.now(UTC),
        }
        staging = self.folder / ".loading" / association_id
        association = Association(
            document,
            Contents(file_system.folder / path.strip("/"), request["DataRepositoryPath"], staging),
        )
        self._role(file_system.id).allow(split_repository(request["DataRepositoryPath"])[0])
        with file_system.lock:
            self._start(file_system.id, association)
            file_system.associations[association_id] = association
        return {**document, "Lifecycle": "CREATING"}

    def association(self, association_id: str) -> tuple[FileSystem, Association]:
        """Return the association and its file system; raise AwsError
        DataRepositoryAssociationNotFound when it does not exist.
        """
        for file_system in self._all.values():
            if association_id in file_system.associations:
                return file_system, file_system.associations[association_id]
        raise AwsError(
            "DataRepositoryAssociationNotFound",
            f"No data repository association {association_id} was found.",
        )

    def update_association(self, request: Mapping[str, Any]) -> Document:
        _, association = self.association(request["AssociationId"])
        check_events(request.get("S3"))
        changes = {
            name: request[name]
            for name in ("S3", "ImportedFileChunkSize")
            if request.get(name) is not None
        }
        association.document.update(changes)
        return association.document

    def dissociate(self, association_id: str, *, delete_data: bool) -> Document:
        file_system, association = self.association(association_id)
        with file_system.lock:
            if delete_data:
                association.contents.remove()
            del file_system.associations[association_id]
        return {
            "AssociationId": association_id,
            "Lifecycle": "DELETING",
            "DeleteDataInFileSystem": delete_data,
        }

    def mount(self, request: Mount) -> Path:
        """Return the folder that shows the directory; raise AwsError, which says why the client
        cannot mount it.
        """
        file_system = self.get(request.file_system_id)
        self._check_reachable(file_system, request)
        mount_name = file_system.document["LustreConfiguration"]["MountName"]
        _, first, *rest = (
            request.directory.split("/") if request.directory.startswith("/") else ["", ""]
        )
        if first != mount_name or ".." in rest:
            raise bad_request(
                f"the path does not start with the file system's mount name, /{mount_name}"
            )
        inside = "/" + "".join(f"{part}/" for part in rest if part)
        with file_system.lock:
            self._bring(file_system, inside)
        folder = file_system.folder / inside.strip("/")
        if not folder.is_dir():
            raise bad_request("there is no such directory on the file system")
        return folder

    def _bring(self, file_system: FileSystem, inside: str) -> None:
        for association in file_system.associations.values():
            path = association.document["FileSystemPath"]
            if not (inside.startswith(path) or path.startswith(inside)):
                continue
            try:
                s3 = self._role(file_system.id).s3()
                association.contents.follow(s3, association.events)
                association.contents.load(
                    s3, inside.removeprefix(path) if inside.startswith(path) else ""
                )
            except (ClientError, BotoCoreError) as error:
                raise bad_request(
                    f"{association.document['DataRepositoryPath']} cannot be read: {error}"
                ) from error

    def _start(self, file_system_id: str, association: Association) -> None:
        try:
            association.contents.start(
                self._role(file_system_id).s3(),
                import_names=association.document["BatchImportMetaDataOnCreate"],
            )
        except (ClientError, BotoCoreError) as error:
            association.document.update(
                Lifecycle="MISCONFIGURED", FailureDetails={"Message": str(error)[:1000]}
            )

    def _check_references(self, request: Mapping[str, Any]) -> str:
        """Check that subnet, security groups and key exist, and return the VPC's id."""
        ec2 = self.clients("ec2")
        try:
            (subnet,) = ec2.describe_subnets(SubnetIds=list(request["SubnetIds"]))["Subnets"]
            groups = self._groups(request.get("SecurityGroupIds") or [])
            if request.get("KmsKeyId"):
                self.clients("kms").describe_key(KeyId=request["KmsKeyId"])
        except ClientError as error:
            code = (
                "BadRequest" if error.operation_name == "DescribeKey" else "InvalidNetworkSettings"
            )
            raise AwsError(code, error_of(error).message) from error
        if groups and (closed := closed_between(groups, groups)):
            message = (
                "The file system cannot be created because the provided security groups do not"
                " permit Lustre LNET network traffic"
            )
            raise AwsError("InvalidNetworkSettings", f"{message} ({closed})")
        return str(subnet["VpcId"])

    def _check_reachable(self, file_system: FileSystem, request: Mount) -> None:
        subnets = self.clients("ec2").describe_subnets(SubnetIds=list(request.subnet_ids))[
            "Subnets"
        ]
        if {subnet["VpcId"] for subnet in subnets} != {file_system.document["VpcId"]}:
            raise bad_request(f"it is in {file_system.document['VpcId']}, and the client is not")
        closed = closed_between(
            self._groups(request.security_group_ids), self._groups(file_system.security_group_ids)
        )
        if file_system.security_group_ids and closed:
            raise bad_request(closed)

    def _groups(self, ids: Sequence[str]) -> list[Mapping[str, Any]]:
        return (
            list(self.clients("ec2").describe_security_groups(GroupIds=list(ids))["SecurityGroups"])
            if ids
            else []
        )

    def _role(self, file_system_id: str) -> LinkedRole:
        return LinkedRole(self.identity, self.clients, file_system_id)

    def _arn(self, resource: str) -> str:
        return f"arn:aws:fsx:{self.identity.region}:{self.identity.account}:{resource}"


def _mount_name(kind: str) -> str:
    return "fsx" if kind == "SCRATCH_1" else "".join(secrets.choice(_MOUNT_NAME) for _ in range(8))
