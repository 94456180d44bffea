"""CodeBuild's projects, which are created, changed, described and deleted.

A build is refused by name, because there is no Docker. Nothing ever says that an image was built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.identity import Identity
from shoal_local.errors import AwsError

Project = dict[str, Any]
NOT_FOUND = "ResourceNotFoundException"


@dataclass
class BuildProjects:
    """The account's build projects in this region."""

    identity: Identity
    _projects: dict[str, Project] = field(default_factory=dict)

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Return the handlers by operation; every other operation is refused."""
        return {
            "CreateProject": self._create,
            "UpdateProject": self._update,
            "DeleteProject": self._delete,
            "BatchGetProjects": self._get,
            "StartBuild": self._refuse_build,
        }

    def _create(self, call: ApiCall) -> Mapping[str, Any]:
        name = call.parameters["name"]
        if name in self._projects:
            raise AwsError("ResourceAlreadyExistsException", f"Project already exists: {name}")
        now = datetime.now(UTC)
        arn = self.identity.arn("codebuild", f"project/{name}")
        self._projects[name] = {**call.parameters, "arn": arn, "created": now, "lastModified": now}
        return {"project": self._projects[name]}

    def _update(self, call: ApiCall) -> Mapping[str, Any]:
        project = self._project(call.parameters["name"])
        project.update({**call.parameters, "lastModified": datetime.now(UTC)})
        return {"project": project}

    def _delete(self, call: ApiCall) -> Mapping[str, Any]:
        # as on AWS, deleting a project that does not exist is a success
        self._projects.pop(call.parameters["name"], None)
        return {}

    def _get(self, call: ApiCall) -> Mapping[str, Any]:
        names = call.parameters["names"]
        missing = [name for name in names if name not in self._projects]
        projects = [self._projects[name] for name in names if name not in missing]
        return {"projects": projects, **({"projectsNotFound": missing} if missing else {})}

    def _refuse_build(self, call: ApiCall) -> Mapping[str, Any]:
        name = self._project(call.parameters["projectName"])["name"]
        reason = (
            f"Shoal's emulator builds no container images (codebuild:StartBuild of {name}): there"
            " is no Docker here"
        )
        raise AwsError("InvalidInputException", reason)

    def _project(self, name: str) -> Project:
        if name not in self._projects:
            raise AwsError(NOT_FOUND, f"Project cannot be found: {name}")
        return self._projects[name]
