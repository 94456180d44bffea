"""ECR's BatchGetImage: this account's images are moto's, those of other registries are the
container images that a runtime stands for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from moto.ecr.exceptions import RepositoryNotFoundException
from moto.ecr.models import ecr_backends

from shoal_local.control.identity import Identity
from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError
from shoal_local.runtimes.catalog import image

USES = ("training", "processing", "inference")


@dataclass(frozen=True)
class Registries:
    """What can be pulled from where."""

    identity: Identity
    _digests: ClassVar[set[str]] = set()
    """Of all accounts here: AWS's registries are the same whoever asks."""

    def get_images(self, call: ApiCall) -> Mapping[str, Any]:
        """BatchGetImage; of other registries' images without manifests: nothing here could pull
        them.
        """
        wanted = call.parameters
        registry, repository = (
            wanted.get("registryId") or self.identity.account,
            wanted["repositoryName"],
        )
        if registry == self.identity.account:
            try:
                found = ecr_backends[registry][call.region].batch_get_image(
                    repository, registry, wanted["imageIds"]
                )
            except RepositoryNotFoundException as error:
                raise AwsError("RepositoryNotFoundException", str(error.message)) from error
            return {
                "images": [self._own_image(registry, repository, each) for each in found["images"]],
                "failures": found["failures"],
            }
        host = f"{registry}.dkr.ecr.{call.region}.amazonaws.com/{repository}"
        looked_up = [(each, self._stand_in(host, each)) for each in wanted["imageIds"]]
        why = {"failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
        return {
            "images": [
                {"registryId": registry, "repositoryName": repository, "imageId": known}
                for _, known in looked_up
                if known
            ],
            "failures": [{"imageId": each, **why} for each, known in looked_up if not known],
        }

    def _own_image(self, registry: str, repository: str, found: Any) -> dict[str, Any]:
        manifest = {
            "imageManifest": found.image_manifest,
            "imageManifestMediaType": found.image_manifest_media_type,
        }
        return {
            "registryId": registry,
            "repositoryName": repository,
            "imageId": {"imageDigest": found.get_image_digest()},
            **manifest,
        }

    def _stand_in(self, host: str, image_id: Mapping[str, str]) -> dict[str, str] | None:
        """The image with its digest: a hash of the runtime that stands for it.

        It is known by that once somebody has asked by tag.
        """
        tag, digest = image_id.get("imageTag"), image_id.get("imageDigest", "")
        if tag is None:
            return {"imageDigest": digest} if f"{host}@{digest}" in self._digests else None
        found = next((known for use in USES if (known := image(f"{host}:{tag}", use))), None)
        if found is None:
            return None
        digest = f"sha256:{hashlib.sha256(f'{host}:{tag} {found.runtime.base_version}'.encode()).hexdigest()}"  # noqa: E501
        self._digests.add(f"{host}@{digest}")
        return {"imageTag": tag, "imageDigest": digest}
