"""CodeBuild's projects, which are created, changed, described and deleted, and ECR's BatchGetImage.

A build is refused by name, because there is no Docker. Nothing ever says that an image was built.
This account's images are in moto's store. The images of other registries are the container images
that a runtime stands for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from moto.ecr.exceptions import RepositoryNotFoundException
from moto.ecr.models import ecr_backends

from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.identity import Identity
from shoal_local.errors import AwsError
from shoal_local.runtimes.catalog import image

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


USES = ("training", "processing", "inference")


@dataclass(frozen=True)
class Registries:
    """The images that can be pulled from each registry."""

    identity: Identity
    _digests: ClassVar[set[str]] = set()
    """Shared by all accounts: AWS's registries are the same for every caller."""

    def get_images(self, call: ApiCall) -> Mapping[str, Any]:
        """Answer BatchGetImage. Images of other registries have no manifest, because nothing here
        could pull them.
        """
        request = call.parameters
        repository, image_ids = request["repositoryName"], request["imageIds"]
        registry = request.get("registryId") or self.identity.account
        names = {"registryId": registry, "repositoryName": repository}
        if registry == self.identity.account:
            backend = ecr_backends[registry][call.region]
            try:
                result = backend.batch_get_image(repository, registry, image_ids)
            except RepositoryNotFoundException as error:
                raise AwsError("RepositoryNotFoundException", str(error.message)) from error
            images = [
                {
                    **names,
                    "imageId": {"imageDigest": each.get_image_digest()},
                    "imageManifest": each.image_manifest,
                    "imageManifestMediaType": each.image_manifest_media_type,
                }
                for each in result["images"]
            ]
            return {"images": images, "failures": result["failures"]}
        host = f"{registry}.dkr.ecr.{call.region}.amazonaws.com/{repository}"
        standing_in = [(each, self._stand_in(host, each)) for each in image_ids]
        why = {"failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
        return {
            "images": [{**names, "imageId": image_id} for _, image_id in standing_in if image_id],
            "failures": [
                {"imageId": each, **why} for each, image_id in standing_in if not image_id
            ],
        }

    def _stand_in(self, host: str, image_id: Mapping[str, str]) -> dict[str, str] | None:
        """Return the image with its digest, a hash of the runtime that stands for it; None when no
        runtime does.

        The image can be asked for by digest once it was asked for by tag.
        """
        tag, digest = image_id.get("imageTag"), image_id.get("imageDigest", "")
        if tag is None:
            return {"imageDigest": digest} if f"{host}@{digest}" in self._digests else None
        entry = next((match for use in USES if (match := image(f"{host}:{tag}", use))), None)
        if entry is None:
            return None
        digest = f"sha256:{hashlib.sha256(f'{host}:{tag} {entry.runtime.base_version}'.encode()).hexdigest()}"  # noqa: E501
        self._digests.add(f"{host}@{digest}")
        return {"imageTag": tag, "imageDigest": digest}
