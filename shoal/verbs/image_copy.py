"""Copy an image, by digest, from the ECR of one account to the repository of the same name in
another.

Only the API of ECR is used, no Docker: read the manifest, stream each missing blob part by part,
and put the manifest last. Blobs that exist are not sent again, so a call that failed can simply be
repeated. Source: ECR API reference.
"""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from shoal.verbs.errors import CopyError, PromotionError, error_code
from shoal.verbs.target import Target

_MANIFESTS = [
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
]
_MAX_DIGESTS = 100
"""Limit of one BatchCheckLayerAvailability."""
_READ_TIMEOUT_S = 60


@dataclass(frozen=True)
class ImageCopy:
    """A copy from `source` to the repository of the same name in `target`, which must exist."""

    source: Target
    target: Target
    repository: str
    say: Callable[[str], None]
    """Called with a line for each image that was copied or already existed."""
    sent: list[str]
    """Gets the names of blobs and manifests as they are sent."""

    def copy(self, digest: str) -> None:
        """Copy the image with that digest.

        Raises PromotionError where the target has no such repository. Raises CopyError where bytes
        cannot be read or do not match their digest. Refusals stay AWS's own exceptions.
        """
        try:
            manifest = self._manifest(self.target, digest)
        except ClientError as error:
            if error_code(error) != "RepositoryNotFoundException":
                raise
            raise self._no_repository() from error
        if manifest is not None:
            self.say(f"there already: {self._name(self.target, digest)}")
            return
        self._copy_image(digest)
        if self._manifest(self.target, digest) is None:
            raise CopyError(f"ECR has no {self._name(self.target, digest)} after it was put there")
        self.say(f"copied: {self._name(self.target, digest)}")

    def _copy_image(self, digest: str) -> None:
        """Put the manifest after everything that it names: blobs, or for an index, images."""
        image = self._manifest(self.source, digest)
        if image is None:
            raise CopyError(f"ECR has no {self._name(self.source, digest)}")
        manifest = json.loads(image["imageManifest"])
        for each in manifest.get("manifests", []):
            if self._manifest(self.target, each["digest"]) is None:
                self._copy_image(each["digest"])
        blobs = [
            *([manifest["config"]] if "config" in manifest else []),
            *manifest.get("layers", []),
        ]
        for blob in self._missing(list(dict.fromkeys(each["digest"] for each in blobs))):
            self._send(blob)
        self._put(digest, image)

    def _manifest(self, where: Target, digest: str) -> dict[str, Any] | None:
        """Return the image at `where`, or None; raise CopyError if its manifest has another
        hash.
        """
        request = {
            "repositoryName": self.repository,
            "imageIds": [{"imageDigest": digest}],
            "acceptedMediaTypes": _MANIFESTS,
        }
        images = where.client("ecr").batch_get_image(registryId=where.account, **request)["images"]
        if not images:
            return None
        image: dict[str, Any] = images[0]
        actual = f"sha256:{hashlib.sha256(image['imageManifest'].encode()).hexdigest()}"
        if actual != digest:
            raise CopyError(
                f"hash mismatch: the manifest of {self._name(where, digest)} has the digest"
                f" {actual}"
            )
        return image

    def _no_repository(self) -> PromotionError:
        message = (
            f"the ECR of {self.target.account} has no repository {self.repository} for the"
            " release's image; nothing was copied"
        )
        command = (
            f"aws ecr create-repository --repository-name {self.repository} --region"
            f" {self.target.region}"
        )
        return PromotionError(
            f"{message}; make it in that account first (`{command}`), with the settings that your"
            " repositories have"
        )

    def _missing(self, blobs: list[str]) -> list[str]:
        """Return the blobs that the target's repository lacks."""
        available: set[str] = set()
        for start in range(0, len(blobs), _MAX_DIGESTS):
            request = {
                **self._repository_of(self.target),
                "layerDigests": blobs[start : start + _MAX_DIGESTS],
            }
            layers = self.target.client("ecr").batch_check_layer_availability(**request)["layers"]
            available |= {
                each["layerDigest"] for each in layers if each["layerAvailability"] == "AVAILABLE"
            }
        return [each for each in blobs if each not in available]

    def _send(self, blob: str) -> None:
        """Stream one layer or configuration; complete it only if its hash is right."""
        url = self.source.client("ecr").get_download_url_for_layer(
            **self._repository_of(self.source), layerDigest=blob
        )["downloadUrl"]
        if urlsplit(url).scheme != "https" and not self.source.is_local:
            raise CopyError(
                f"ECR's URL of {self._name(self.source, blob)} is not of HTTPS; nothing was read"
                " from it"
            )
        try:
            with self._opener().open(url, timeout=_READ_TIMEOUT_S) as body:
                upload, actual = self._upload(body)
        except (OSError, HTTPException) as error:
            raise CopyError(f"{self._name(self.source, blob)} cannot be read: {error}") from error
        if actual != blob:
            raise CopyError(
                f"hash mismatch: what was read as {self._name(self.source, blob)} has the digest"
                f" {actual}; it was not kept"
            )
        self._complete(upload, blob)
        self.sent.append(self._name(self.target, blob))

    def _opener(self) -> urllib.request.OpenerDirector:
        """Return an opener that uses the user's proxy, but not for shoal-local."""
        return urllib.request.build_opener(
            *([urllib.request.ProxyHandler({})] if self.source.is_local else [])
        )

    def _upload(self, body: Any) -> tuple[str, str]:
        """Upload parts of the size that ECR asks for, one in memory at a time.

        Returns the upload's id and the digest of what was sent.
        """
        ecr, first, digest = self.target.client("ecr"), 0, hashlib.sha256()
        upload = ecr.initiate_layer_upload(**self._repository_of(self.target))
        while part := body.read(upload["partSize"]):
            digest.update(part)
            part_range = {
                "uploadId": upload["uploadId"],
                "partFirstByte": first,
                "partLastByte": first + len(part) - 1,
            }
            ecr.upload_layer_part(
                **self._repository_of(self.target), **part_range, layerPartBlob=part
            )
            first += len(part)
        return upload["uploadId"], f"sha256:{digest.hexdigest()}"

    def _complete(self, upload: str, blob: str) -> None:
        """Complete an upload, whose digest ECR compares too.

        Somebody else may have sent the same layer meanwhile.
        """
        try:
            self.target.client("ecr").complete_layer_upload(
                **self._repository_of(self.target), uploadId=upload, layerDigests=[blob]
            )
        except ClientError as error:
            if error_code(error) != "LayerAlreadyExistsException":
                raise

    def _put(self, digest: str, image: dict[str, Any]) -> None:
        """Put the manifest with a tag that no other image can have.

        No tag of the target's moves, and rules that expire untagged images spare it.
        """
        self.target.client("ecr").put_image(
            **self._repository_of(self.target),
            imageManifest=image["imageManifest"],
            **(
                {"imageManifestMediaType": kind}
                if (kind := image.get("imageManifestMediaType"))
                else {}
            ),
            imageDigest=digest,
            imageTag=f"copied-{digest.removeprefix('sha256:')}",
        )
        self.sent.append(self._name(self.target, digest))

    def _repository_of(self, where: Target) -> dict[str, str]:
        return {"registryId": where.account, "repositoryName": self.repository}

    def _name(self, where: Target, digest: str) -> str:
        return f"{where.account}/{self.repository}@{digest}"
