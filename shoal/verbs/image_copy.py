"""An image in the ECR of one account comes in; the same image, by digest and in a repository of the
same name, is in the other's.

Only the API of ECR is used, no Docker: the manifest is read, each blob that the target has not is
streamed there part by part, and the manifest is put last. What is there is not sent again, so a
call that failed is simply repeated. Source: ECR API reference.
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
_ASKED_AT_ONCE = 100
"""Digests of one BatchCheckLayerAvailability, at most."""
_PATIENCE_S = 60


@dataclass(frozen=True)
class ImageCopy:
    """From the repository in `source`'s account to that of the same name in `target`'s, which must
    be there.
    """

    source: Target
    target: Target
    repository: str
    say: Callable[[str], None]
    """Is told of each image that was copied, or found."""
    made: list[str]
    """Gets what was sent, as it is sent."""

    def make(self, digest: str) -> None:
        """The image of that digest.

        Raises PromotionError where the target has no such repository, CopyError where bytes are not
        what the digest says or cannot be read; refusals are AWS's own.
        """
        try:
            there = self._manifest(self.target, digest)
        except ClientError as error:
            if error_code(error) != "RepositoryNotFoundException":
                raise
            raise self._no_repository() from error
        if there is not None:
            self.say(f"there already: {self._name(self.target, digest)}")
            return
        self._copy(digest)
        if self._manifest(self.target, digest) is None:
            raise CopyError(f"ECR has no {self._name(self.target, digest)} after it was put there")
        self.say(f"copied: {self._name(self.target, digest)}")

    def _copy(self, digest: str) -> None:
        """The manifest, after everything that it names: blobs, or for an index, images."""
        found = self._manifest(self.source, digest)
        if found is None:
            raise CopyError(f"ECR has no {self._name(self.source, digest)}")
        manifest = json.loads(found["imageManifest"])
        for each in manifest.get("manifests", []):
            if self._manifest(self.target, each["digest"]) is None:
                self._copy(each["digest"])
        blobs = [
            *([manifest["config"]] if "config" in manifest else []),
            *manifest.get("layers", []),
        ]
        for blob in self._missing(list(dict.fromkeys(each["digest"] for each in blobs))):
            self._send(blob)
        self._put(digest, found)

    def _manifest(self, where: Target, digest: str) -> dict[str, Any] | None:
        """The image there, whose manifest hashes to its digest; None where there is none."""
        wanted = {
            "repositoryName": self.repository,
            "imageIds": [{"imageDigest": digest}],
            "acceptedMediaTypes": _MANIFESTS,
        }
        images = where.client("ecr").batch_get_image(registryId=where.account, **wanted)["images"]
        if not images:
            return None
        found: dict[str, Any] = images[0]
        if (
            is_ := f"sha256:{hashlib.sha256(found['imageManifest'].encode()).hexdigest()}"
        ) != digest:
            raise CopyError(
                f"hash mismatch: the manifest of {self._name(where, digest)} has the digest {is_}"
            )
        return found

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
        """Those that the target's repository has not."""
        there: set[str] = set()
        for start in range(0, len(blobs), _ASKED_AT_ONCE):
            asked = {**self._in(self.target), "layerDigests": blobs[start : start + _ASKED_AT_ONCE]}
            found = self.target.client("ecr").batch_check_layer_availability(**asked)["layers"]
            there |= {
                each["layerDigest"] for each in found if each["layerAvailability"] == "AVAILABLE"
            }
        return [each for each in blobs if each not in there]

    def _send(self, blob: str) -> None:
        """One layer, or the configuration; it becomes a layer of the target only when its hash is
        right.
        """
        url = self.source.client("ecr").get_download_url_for_layer(
            **self._in(self.source), layerDigest=blob
        )["downloadUrl"]
        if urlsplit(url).scheme != "https" and not self.source.is_local:
            raise CopyError(
                f"ECR's URL of {self._name(self.source, blob)} is not of HTTPS; nothing was read"
                " from it"
            )
        try:
            with self._opener().open(url, timeout=_PATIENCE_S) as body:
                upload, found = self._upload(body)
        except (OSError, HTTPException) as error:
            raise CopyError(f"{self._name(self.source, blob)} cannot be read: {error}") from error
        if found != blob:
            raise CopyError(
                f"hash mismatch: what was read as {self._name(self.source, blob)} has the digest"
                f" {found}; it was not kept"
            )
        self._complete(upload, blob)
        self.made.append(self._name(self.target, blob))

    def _opener(self) -> urllib.request.OpenerDirector:
        """The user's proxy is for what is not on this machine."""
        return urllib.request.build_opener(
            *([urllib.request.ProxyHandler({})] if self.source.is_local else [])
        )

    def _upload(self, body: Any) -> tuple[str, str]:
        """Parts of the size for which ECR asks, one in memory at a time; the upload, and the digest
        of what was sent.
        """
        ecr, first, hashed = self.target.client("ecr"), 0, hashlib.sha256()
        begun = ecr.initiate_layer_upload(**self._in(self.target))
        while part := body.read(begun["partSize"]):
            hashed.update(part)
            place = {
                "uploadId": begun["uploadId"],
                "partFirstByte": first,
                "partLastByte": first + len(part) - 1,
            }
            ecr.upload_layer_part(**self._in(self.target), **place, layerPartBlob=part)
            first += len(part)
        return begun["uploadId"], f"sha256:{hashed.hexdigest()}"

    def _complete(self, upload: str, blob: str) -> None:
        """ECR compares the digest too; somebody else may have sent the same layer meanwhile."""
        try:
            self.target.client("ecr").complete_layer_upload(
                **self._in(self.target), uploadId=upload, layerDigests=[blob]
            )
        except ClientError as error:
            if error_code(error) != "LayerAlreadyExistsException":
                raise

    def _put(self, digest: str, found: dict[str, Any]) -> None:
        """With a tag that can be no other image's: a tag of the target's is not moved, and rules
        that expire untagged images spare it.
        """
        self.target.client("ecr").put_image(
            **self._in(self.target),
            imageManifest=found["imageManifest"],
            **(
                {"imageManifestMediaType": kind}
                if (kind := found.get("imageManifestMediaType"))
                else {}
            ),
            imageDigest=digest,
            imageTag=f"copied-{digest.removeprefix('sha256:')}",
        )
        self.made.append(self._name(self.target, digest))

    def _in(self, where: Target) -> dict[str, str]:
        return {"registryId": where.account, "repositoryName": self.repository}

    def _name(self, where: Target, digest: str) -> str:
        return f"{where.account}/{self.repository}@{digest}"
