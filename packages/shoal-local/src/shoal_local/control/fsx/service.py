"""The FSx API for file systems and data repository associations. Everything else of FSx is refused
by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal_local.control.fsx.checks import LUSTRE_MEMBERS, bad_request, not_emulated
from shoal_local.control.fsx.filesystems import Document, FileSystems, Mount
from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError

MAX_RESULTS = 100
_UPDATES = LUSTRE_MEMBERS - {"DeploymentType"}


@dataclass(frozen=True)
class Fsx:
    """The service. `mount` is no part of the API: SageMaker's hosts call it."""

    file_systems: FileSystems

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        return {
            "CreateFileSystem": self._create,
            "DescribeFileSystems": self._describe,
            "UpdateFileSystem": self._update,
            "DeleteFileSystem": self._delete,
            "CreateDataRepositoryAssociation": self._associate,
            "DescribeDataRepositoryAssociations": self._describe_associations,
            "UpdateDataRepositoryAssociation": self._update_association,
            "DeleteDataRepositoryAssociation": self._dissociate,
            "TagResource": self._tag,
            "UntagResource": self._untag,
            "ListTagsForResource": self._tags,
        }

    def mount(
        self,
        file_system_id: str,
        directory: str,
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str],
    ) -> Path:
        """Return the folder that shows `directory` (`/<mount name>/...`) to a client in these
        subnets and groups.

        Raises AwsError when the client could not mount it.
        """
        return self.file_systems.mount(
            Mount(file_system_id, directory, subnet_ids, security_group_ids)
        )

    def _create(self, call: ApiCall) -> Mapping[str, Any]:
        return {"FileSystem": _response(self.file_systems.create(call.parameters))}

    def _describe(self, call: ApiCall) -> Mapping[str, Any]:
        ids = call.parameters.get("FileSystemIds")
        file_systems = (
            [self.file_systems.get(each) for each in ids] if ids else self.file_systems.all()
        )
        return _page("FileSystems", [each.document for each in file_systems], call.parameters)

    def _update(self, call: ApiCall) -> Mapping[str, Any]:
        _refuse_others(
            call.parameters,
            {"FileSystemId", "ClientRequestToken", "StorageCapacity", "LustreConfiguration"},
            "UpdateFileSystem",
        )
        _refuse_others(
            call.parameters.get("LustreConfiguration") or {},
            _UPDATES,
            "UpdateFileSystem's LustreConfiguration",
        )
        return {"FileSystem": _response(self.file_systems.update(call.parameters))}

    def _delete(self, call: ApiCall) -> Mapping[str, Any]:
        return self.file_systems.delete(call.parameters["FileSystemId"])

    def _associate(self, call: ApiCall) -> Mapping[str, Any]:
        return {"Association": _response(self.file_systems.associate(call.parameters))}

    def _describe_associations(self, call: ApiCall) -> Mapping[str, Any]:
        ids, filters = call.parameters.get("AssociationIds"), call.parameters.get("Filters") or []
        associations = [
            each
            for file_system in self.file_systems.all()
            for each in file_system.associations.values()
        ]
        if ids:
            associations = [self.file_systems.association(each)[1] for each in ids]
        for condition in filters:
            if condition["Name"] != "file-system-id":
                raise not_emulated(f"the filter {condition['Name']}")
            associations = [
                each
                for each in associations
                if each.document["FileSystemId"] in condition["Values"]
            ]
        return _page("Associations", [each.document for each in associations], call.parameters)

    def _update_association(self, call: ApiCall) -> Mapping[str, Any]:
        return {"Association": _response(self.file_systems.update_association(call.parameters))}

    def _dissociate(self, call: ApiCall) -> Mapping[str, Any]:
        delete_data = bool(call.parameters.get("DeleteDataInFileSystem"))
        return self.file_systems.dissociate(
            call.parameters["AssociationId"], delete_data=delete_data
        )

    def _tags(self, call: ApiCall) -> Mapping[str, Any]:
        return _response({"Tags": self._resource(call.parameters["ResourceARN"])["Tags"]})

    def _tag(self, call: ApiCall) -> Mapping[str, Any]:
        document, tags = (
            self._resource(call.parameters["ResourceARN"]),
            list(call.parameters["Tags"]),
        )
        document["Tags"] = [*_without(document["Tags"], [tag["Key"] for tag in tags]), *tags]
        return {}

    def _untag(self, call: ApiCall) -> Mapping[str, Any]:
        document = self._resource(call.parameters["ResourceARN"])
        document["Tags"] = _without(document["Tags"], call.parameters["TagKeys"])
        return {}

    def _resource(self, arn: str) -> Document:
        _, _, resource = arn.rpartition(":")
        kind, _, rest = resource.partition("/")
        if kind == "file-system":
            return self.file_systems.get(rest).document
        if kind == "association":
            return self.file_systems.association(rest.rpartition("/")[2])[1].document
        raise AwsError(
            "ResourceNotFound",
            f"The resource specified by the Amazon Resource Name (ARN) can't be found: {arn}",
        )


def _response(document: Mapping[str, Any]) -> Document:
    """Leave out an empty list of tags, as FSx does."""
    return {key: value for key, value in document.items() if key != "Tags" or value}


def _without(tags: Sequence[Mapping[str, str]], keys: Sequence[str]) -> list[Mapping[str, str]]:
    return [tag for tag in tags if tag["Key"] not in keys]


def _refuse_others(
    parameters: Mapping[str, Any], emulated: set[str] | frozenset[str], what: str
) -> None:
    unknown = sorted(
        key for key, value in parameters.items() if value is not None and key not in emulated
    )
    if unknown:
        raise not_emulated(f"{unknown[0]} in {what}")


def _page(
    name: str, documents: Sequence[Document], parameters: Mapping[str, Any]
) -> Mapping[str, Any]:
    size, token = parameters.get("MaxResults") or MAX_RESULTS, parameters.get("NextToken") or "0"
    if not token.isdecimal():
        raise bad_request(f"NextToken {token} is none of this operation's")
    first, end = int(token), int(token) + size
    return {
        name: [_response(each) for each in documents[first:end]],
        **({"NextToken": str(end)} if end < len(documents) else {}),
    }
