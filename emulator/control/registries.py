"""ECR's BatchGetImage: this account's images are moto's, those of other registries are the container images that a runtime stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.ecr.models import ecr_backends

from emulator.control.identity import Identity
from emulator.control.protocol import ApiCall
from emulator.runtimes.catalog import image

USES = ("training", "processing", "inference")


@dataclass(frozen=True)
class Registries:
    """What can be pulled from where."""

    identity: Identity

    def get_images(self, call: ApiCall) -> Mapping[str, Any]:
        """BatchGetImage, without manifests: nothing here could pull them."""
        wanted = call.parameters
        registry, repository = wanted.get("registryId") or self.identity.account, wanted["repositoryName"]
        if registry == self.identity.account:
            found = ecr_backends[registry][call.region].batch_get_image(repository, registry, wanted["imageIds"])
            return {"images": [self._own(registry, repository, each) for each in found["images"]], "failures": found["failures"]}
        known = [each for each in wanted["imageIds"] if self._stands_in(registry, call.region, repository, each)]
        missing = [each for each in wanted["imageIds"] if each not in known]
        why = {"failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
        return {
            "images": [{"registryId": registry, "repositoryName": repository, "imageId": each} for each in known],
            "failures": [{"imageId": each, **why} for each in missing],
        }

    def _own(self, registry: str, repository: str, found: Any) -> dict[str, Any]:
        return {"registryId": registry, "repositoryName": repository, "imageId": {"imageDigest": found.get_image_digest()}}

    def _stands_in(self, registry: str, region: str, repository: str, image_id: Mapping[str, str]) -> bool:
        uri = f"{registry}.dkr.ecr.{region}.amazonaws.com/{repository}:{image_id.get('imageTag', '')}"
        return any(image(uri, use) for use in USES)
