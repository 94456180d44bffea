"""The FSx API: Lustre file systems on SSD, each with at most one data repository association.

What a stack of Shoal, or a client that looks at it, does not send is refused by name. Source:
Amazon FSx API reference. The codes are documented; where it gives no wording, the message is ours.
"""

import secrets
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.control.fsx_links import LinkedPrefix, LinkedRole
from shoal_local.control.http.protocol import ApiCall, Handlers
from shoal_local.control.identity.identity import Clients, Identity, error_of
from shoal_local.control.kept_services import Tagging, tag_list, tag_map
from shoal_local.errors import AwsError

_bad_request = partial(AwsError, "BadRequest")

Document = dict[str, Any]
_LUSTRE = {"DeploymentType", "PerUnitStorageThroughput", "DataCompressionType"}
_FILE_SYSTEM = {
    *("FileSystemType", "FileSystemTypeVersion", "StorageCapacity", "StorageType", "SubnetIds"),
    *("SecurityGroupIds", "KmsKeyId", "LustreConfiguration", "ClientRequestToken", "Tags"),
}
_ASSOCIATION = {
    *("FileSystemId", "FileSystemPath", "DataRepositoryPath", "BatchImportMetaDataOnCreate"),
    *("S3", "ClientRequestToken", "Tags"),
}
_FORGOTTEN = {"SecurityGroupIds", "ClientRequestToken"}
"""Which the API does not tell again."""
_IMPORTED = {"NEW", "CHANGED", "DELETED"}


@dataclass
class FileSystem:
    """A file system, its association, and the descriptions of both as the API answers them."""

    document: Document
    role: LinkedRole
    association: Document | None = None
    link: LinkedPrefix | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Fsx:
    """The account's file systems. Each is a folder below `folder`, which is deleted with it."""

    identity: Identity
    clients: Clients
    folder: Path
    _all: dict[str, FileSystem] = field(default_factory=dict)

    @property
    def operations(self) -> Handlers:
        return {
            "CreateFileSystem": self._create,
            "DescribeFileSystems": self._describe,
            "UpdateFileSystem": self._update,
            "DeleteFileSystem": self._delete,
            "CreateDataRepositoryAssociation": self._associate,
            "DescribeDataRepositoryAssociations": self._describe_associations,
            "UpdateDataRepositoryAssociation": self._update_association,
            "DeleteDataRepositoryAssociation": self._dissociate,
            **Tagging(self._tags, as_list=True).operations,
        }

    def _create(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        _refuse_others(request, _FILE_SYSTEM, "CreateFileSystem")
        for name, emulated in (("FileSystemType", "LUSTRE"), ("StorageType", "SSD")):
            if request.get(name, emulated) != emulated:
                raise _not_emulated(f"{name} {request[name]}")
        lustre = request.get("LustreConfiguration") or {}
        _refuse_others(lustre, _LUSTRE, "LustreConfiguration")
        id_ = f"fs-{secrets.token_hex(9)[:17]}"
        document = {
            **{name: request[name] for name in request.keys() - _FORGOTTEN},
            "OwnerId": self.identity.account,
            "CreationTime": datetime.now(UTC),
            "FileSystemId": id_,
            "FileSystemTypeVersion": request.get("FileSystemTypeVersion", "2.10"),
            "Lifecycle": "AVAILABLE",
            "StorageType": "SSD",
            "VpcId": self._checked_vpc(request),
            "DNSName": f"{id_}.fsx.{self.identity.region}.amazonaws.com",
            "ResourceARN": self.identity.arn("fsx", f"file-system/{id_}"),
            "Tags": tag_map(request.get("Tags")),
            "LustreConfiguration": {"MountName": secrets.token_hex(4), **lustre},
        }
        (self.folder / id_).mkdir(parents=True)
        role = LinkedRole(self.identity, self.clients, id_)
        self._all[id_] = FileSystem(document, role)
        return {"FileSystem": _answer(document, Lifecycle="CREATING")}

    def _checked_vpc(self, request: Mapping[str, Any]) -> str:
        """Return the VPC; raise AwsError unless subnet, groups and key exist."""
        try:
            answer = self.clients("ec2").describe_subnets(SubnetIds=request["SubnetIds"])
            if groups := request.get("SecurityGroupIds"):
                self.clients("ec2").describe_security_groups(GroupIds=groups)
            if request.get("KmsKeyId"):
                self.clients("kms").describe_key(KeyId=request["KmsKeyId"])
        except ClientError as error:
            is_key = error.operation_name == "DescribeKey"
            code = "BadRequest" if is_key else "InvalidNetworkSettings"
            raise AwsError(code, error_of(error).message) from error
        return str(answer["Subnets"][0]["VpcId"])

    def _describe(self, call: ApiCall) -> Mapping[str, Any]:
        ids = call.parameters.get("FileSystemIds") or list(self._all)
        return {"FileSystems": [_answer(self._get(each).document) for each in ids]}

    def _get(self, id_: str) -> FileSystem:
        if id_ not in self._all:
            raise AwsError("FileSystemNotFound", f"File system '{id_}' does not exist.")
        return self._all[id_]

    def _update(self, call: ApiCall) -> Mapping[str, Any]:
        """Let a file system grow, or change its throughput or compression."""
        document = self._get(call.parameters["FileSystemId"]).document
        fixed = {"FileSystemTypeVersion", "StorageType"}
        other = {"FileSystemId", "ClientRequestToken", "StorageCapacity", "LustreConfiguration"}
        _refuse_others(call.parameters, other | fixed, "UpdateFileSystem")
        for name in fixed & call.parameters.keys():
            if call.parameters[name] != document[name]:
                raise _not_emulated(f"another {name} in UpdateFileSystem")
        lustre = call.parameters.get("LustreConfiguration") or {}
        _refuse_others(lustre, _LUSTRE, "UpdateFileSystem's LustreConfiguration")
        current = document["StorageCapacity"]
        capacity = call.parameters.get("StorageCapacity", current)
        if capacity < current:
            raise _bad_request(f"StorageCapacity can only grow; it is {current} GiB")
        document["StorageCapacity"] = capacity
        document["LustreConfiguration"].update(lustre)
        return {"FileSystem": _answer(document)}

    def _delete(self, call: ApiCall) -> Mapping[str, Any]:
        file_system = self._get(call.parameters["FileSystemId"])
        id_ = file_system.document["FileSystemId"]
        with file_system.lock:
            file_system.role.delete()
            shutil.rmtree(self.folder / id_, ignore_errors=True)
            del self._all[id_]
        return {"FileSystemId": id_, "Lifecycle": "DELETING"}

    def _associate(self, call: ApiCall) -> Mapping[str, Any]:
        """Link a bucket's prefix to a path. AWS checks later whether the bucket can be read."""
        request = call.parameters
        file_system = self._get(request["FileSystemId"])
        _check_association(request, file_system)
        bucket, _, prefix = request["DataRepositoryPath"].removeprefix("s3://").partition("/")
        id_, path = f"dra-{secrets.token_hex(9)[:17]}", _folder_of(request["FileSystemPath"])
        folder = self.folder / request["FileSystemId"] / path.strip("/")
        staging = self.folder / ".loading" / id_
        link = LinkedPrefix(bucket, _folder_of(prefix).lstrip("/"), folder, staging)
        try:
            file_system.role.allow(bucket)
            link.objects(file_system.role.s3())
        except (ClientError, BotoCoreError) as error:
            message = f"the data repository association would be MISCONFIGURED: {error}"
            raise _bad_request(message) from error
        folder.mkdir(parents=True, exist_ok=True)
        file_system.link = link
        file_system.association = {
            **{name: request[name] for name in request.keys() - _FORGOTTEN},
            "AssociationId": id_,
            "ResourceARN": self.identity.arn("fsx", f"association/{request['FileSystemId']}/{id_}"),
            "Lifecycle": "AVAILABLE",
            "FileSystemPath": path,
            "Tags": tag_map(request.get("Tags")),
            "CreationTime": datetime.now(UTC),
        }
        return {"Association": _answer(file_system.association, Lifecycle="CREATING")}

    def _associated(self, id_: str) -> FileSystem:
        for each in self._all.values():
            if each.association and each.association["AssociationId"] == id_:
                return each
        message = f"No data repository association {id_} was found."
        raise AwsError("DataRepositoryAssociationNotFound", message)

    def _describe_associations(self, call: ApiCall) -> Mapping[str, Any]:
        taken = {"AssociationIds", "MaxResults", "NextToken"}
        _refuse_others(call.parameters, taken, "DescribeDataRepositoryAssociations")
        ids = call.parameters.get("AssociationIds")
        file_systems = map(self._associated, ids) if ids else self._all.values()
        associations = [each.association for each in file_systems if each.association]
        return {"Associations": [_answer(each) for each in associations]}

    def _update_association(self, call: ApiCall) -> Mapping[str, Any]:
        association = self._associated(call.parameters["AssociationId"]).association or {}
        taken = {"AssociationId", "ClientRequestToken", "S3"}
        _refuse_others(call.parameters, taken, "UpdateDataRepositoryAssociation")
        _check_events(call.parameters)
        association["S3"] = call.parameters["S3"]
        return {"Association": _answer(association)}

    def _dissociate(self, call: ApiCall) -> Mapping[str, Any]:
        id_ = call.parameters["AssociationId"]
        file_system = self._associated(id_)
        if call.parameters.get("DeleteDataInFileSystem"):
            raise _not_emulated("DeleteDataInFileSystem")
        with file_system.lock:
            file_system.association = file_system.link = None
        return {"AssociationId": id_, "Lifecycle": "DELETING", "DeleteDataInFileSystem": False}

    def mount(self, file_system_id: str, directory: str, subnet_ids: Sequence[str]) -> Path:
        """Return the folder that shows `directory` (`/<mount name>/...`) to a client in these
        subnets. It is no part of the API: SageMaker's hosts call it.

        Raise AwsError, which says why the client cannot mount it.
        """
        file_system = self._get(file_system_id)
        vpc = file_system.document["VpcId"]
        subnets = self.clients("ec2").describe_subnets(SubnetIds=list(subnet_ids))["Subnets"]
        if {subnet["VpcId"] for subnet in subnets} != {vpc}:
            raise _bad_request(f"it is in {vpc}, and the client is not")
        start = f"/{file_system.document['LustreConfiguration']['MountName']}/"
        inside = _folder_of(directory)
        if not inside.startswith(start):
            message = "the path does not start with the file system's mount name"
            raise _bad_request(f"{message}, {start.rstrip('/')}")
        inside = inside.removeprefix(start.rstrip("/"))
        with file_system.lock:
            self._bring(file_system, inside)
        folder = self.folder / file_system_id / inside.strip("/")
        if not folder.is_dir():
            raise _bad_request("there is no such directory on the file system")
        return folder

    def _bring(self, file_system: FileSystem, inside: str) -> None:
        """Bring what the association shows in a directory, or below it."""
        association, link = file_system.association, file_system.link
        if association is None or link is None:
            return
        path = association["FileSystemPath"]
        if inside.startswith(path) or path.startswith(inside):
            below = inside.removeprefix(path) if inside.startswith(path) else ""
            try:
                link.bring(file_system.role.s3(), below)
            except (ClientError, BotoCoreError) as error:
                repository = association["DataRepositoryPath"]
                raise _bad_request(f"{repository} cannot be read: {error}") from error

    def _tags(self, arn: str) -> dict[str, str]:
        for file_system in self._all.values():
            for document in (file_system.document, file_system.association):
                if document and document["ResourceARN"] == arn:
                    tags: dict[str, str] = document["Tags"]
                    return tags
        message = "The resource specified by the Amazon Resource Name (ARN) can't be found"
        raise AwsError("ResourceNotFound", f"{message}: {arn}")


def _answer(document: Mapping[str, Any], **changes: Any) -> Document:
    """Return a description as the API has it."""
    others = {key: value for key, value in document.items() if key != "Tags"}
    return {**others, **tag_list(document.get("Tags", {})), **changes}


def _not_emulated(what: str) -> AwsError:
    return _bad_request(f"Shoal's emulator does not emulate {what} of FSx")


def _refuse_others(parameters: Mapping[str, Any], emulated: set[str], where: str) -> None:
    for name in sorted(parameters.keys() - emulated):
        raise _not_emulated(f"{name} in {where}")


def _check_association(request: Mapping[str, Any], file_system: FileSystem) -> None:
    _refuse_others(request, _ASSOCIATION, "CreateDataRepositoryAssociation")
    if file_system.association:
        raise _not_emulated("a second data repository association of a file system")
    if not request.get("BatchImportMetaDataOnCreate"):
        raise _not_emulated("an association without BatchImportMetaDataOnCreate")
    _check_events(request)


def _check_events(request: Mapping[str, Any]) -> None:
    """Raise AwsError unless all that happens in the bucket is imported."""
    policy = (request.get("S3") or {}).get("AutoImportPolicy") or {}
    if set(policy.get("Events") or []) != _IMPORTED:
        raise _not_emulated("an AutoImportPolicy without NEW, CHANGED and DELETED")


def _folder_of(path: str) -> str:
    """Return `ns1`, `/ns1` and `/ns1/` as `/ns1/`; raise AwsError for a path that goes up."""
    if ".." in path.split("/"):
        raise _bad_request(f"the path {path} has ..")
    return "/" + "".join(f"{part}/" for part in path.split("/") if part)
