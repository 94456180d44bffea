"""ECR's BatchGetImage.

This account's images are in moto's store. The images of other registries are the container images
that a runtime stands for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from moto.ecr.exceptions import RepositoryNotFoundException
from moto.ecr.models import ecr_backends

from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.identity import Identity
from shoal_local.errors import AwsError
from shoal_local.runtimes.catalog import image

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
