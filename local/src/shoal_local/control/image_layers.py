"""ECR's layers: an upload in parts goes to disk and becomes a blob once its digest matches; an
unsigned URL returns it.

Which repository has which blob is kept where moto's BatchCheckLayerAvailability looks for it.
Source: ECR API reference, the operations and their errors.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moto.ecr.models import ecr_backends

from shoal_local.control.identity import Identity
from shoal_local.control.protocol import Answer, ApiCall
from shoal_local.errors import AwsError

PATH = "/_shoal/ecr/"
PART_BYTES = 10 * 1024 * 1024
MIN_PART_BYTES, MAX_PART_BYTES = 5 * 1024 * 1024, 20 * 1024 * 1024


@dataclass
class Upload:
    """A layer that is being uploaded: its bytes so far, and the size of the last part."""

    repository: str
    file: Path
    length: int = 0
    last_part: int = 0
    has_short_part: bool = False
    """Whether a part that is not the last is smaller than ECR allows."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, part: bytes) -> None:
        with self.file.open("ab") as file:
            file.write(part)
        self.has_short_part = self.has_short_part or bool(
            self.length and self.last_part < MIN_PART_BYTES
        )
        self.length, self.last_part = self.length + len(part), len(part)


@dataclass(frozen=True)
class Layers:
    """The layers of one account, below `folder`: `blobs/` by SHA-256, `uploads/` until they are
    complete.
    """

    identity: Identity
    folder: Path
    endpoint_url: Callable[[], str]
    _uploads: dict[str, Upload] = field(default_factory=dict)
    _links: dict[str, Path] = field(default_factory=dict)

    @property
    def operations(self) -> Mapping[str, Callable[[ApiCall], Mapping[str, Any]]]:
        return {
            "InitiateLayerUpload": self.initiate,
            "UploadLayerPart": self.upload,
            "CompleteLayerUpload": self.complete,
            "GetDownloadUrlForLayer": self.download_url,
        }

    def initiate(self, call: ApiCall) -> Mapping[str, Any]:
        """Answer InitiateLayerUpload."""
        self._repository(call)
        id_ = secrets.token_hex(16)
        self._uploads[id_] = Upload(call.parameters["repositoryName"], self._place("uploads", id_))
        return {"uploadId": id_, "partSize": PART_BYTES}

    def upload(self, call: ApiCall) -> Mapping[str, Any]:
        """Answer UploadLayerPart: parts come in order, each from where the last one ended."""
        upload, request = self._upload(call), call.parameters
        part, first, last = (
            request["layerPartBlob"],
            request["partFirstByte"],
            request["partLastByte"],
        )
        with upload.lock:
            if (first, last) != (upload.length, upload.length + len(part) - 1) or not 0 < len(
                part
            ) <= MAX_PART_BYTES:
                consecutive = (
                    "the first byte specified is not consecutive to the last byte of a previous"
                    " layer part upload"
                )
                raise AwsError(
                    "InvalidLayerPartException",
                    f"The layer part size is not valid, or {consecutive}.",
                )
            upload.append(part)
        return {**self._ids(call), "lastByteReceived": last}

    def complete(self, call: ApiCall) -> Mapping[str, Any]:
        """Answer CompleteLayerUpload, which checks the digest."""
        upload, repository = self._upload(call), self._repository(call)
        with upload.lock:
            if not upload.length:
                raise AwsError(
                    "EmptyUploadException",
                    "The specified layer upload does not contain any layer parts.",
                )
            if upload.has_short_part:
                raise AwsError(
                    "LayerPartTooSmallException", "Layer parts must be at least 5 MiB in size."
                )
            with upload.file.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            digest = f"sha256:{sha256}"
            if digest not in call.parameters["layerDigests"]:
                calculated = (
                    "The layer digest calculation performed by Amazon ECR upon receipt of the image"
                    " layer"
                )
                raise AwsError(
                    "InvalidLayerException", f"{calculated} does not match the digest specified."
                )
            self._uploads.pop(call.parameters["uploadId"], None)
            if digest in repository.layers:
                upload.file.unlink()
                raise AwsError(
                    "LayerAlreadyExistsException",
                    "The image layer already exists in the associated repository.",
                )
            upload.file.replace(self._place("blobs", sha256))
            repository.layers[digest] = upload.length
        return {**self._ids(call), "layerDigest": digest}

    def download_url(self, call: ApiCall) -> Mapping[str, Any]:
        """Answer GetDownloadUrlForLayer. AWS's URL is a signed one of S3, this one contains a
        secret word.
        """
        digest = call.parameters["layerDigest"]
        if digest not in self._repository(call).layers:
            raise AwsError(
                "LayersNotFoundException",
                f"The layer with digest '{digest}' does not exist in the repository.",
            )
        word = secrets.token_urlsafe(24)
        self._links[word] = self._place("blobs", digest.removeprefix("sha256:"))
        return {"downloadUrl": f"{self.endpoint_url()}{PATH}{word}", "layerDigest": digest}

    def answer_path(self, environ: Mapping[str, Any]) -> Answer | None:
        """Return the bytes behind a URL of `download_url`; None for any other URL."""
        path = str(environ.get("PATH_INFO", ""))
        file = (
            self._links.get(path.removeprefix(PATH))
            if path.startswith(PATH) and environ["REQUEST_METHOD"] == "GET"
            else None
        )
        return (
            Answer(200, {"Content-Type": "application/octet-stream"}, b"", file) if file else None
        )

    def _repository(self, call: ApiCall) -> Any:
        name = call.parameters["repositoryName"]
        repository = ecr_backends[self.identity.account][call.region].repositories.get(name)
        if repository is None:
            where = f"in the registry with id '{self.identity.account}'"
            raise AwsError(
                "RepositoryNotFoundException",
                f"The repository with name '{name}' does not exist {where}",
            )
        return repository

    def _upload(self, call: ApiCall) -> Upload:
        """Return the upload; raise AwsError when it was not begun in this repository, or
        has ended.
        """
        self._repository(call)
        upload = self._uploads.get(call.parameters["uploadId"])
        if upload is None or upload.repository != call.parameters["repositoryName"]:
            raise AwsError(
                "UploadNotFoundException",
                "The upload could not be found, or the specified upload ID is not valid.",
            )
        return upload

    def _ids(self, call: ApiCall) -> dict[str, Any]:
        request = call.parameters
        return {
            "registryId": self.identity.account,
            "repositoryName": request["repositoryName"],
            "uploadId": request["uploadId"],
        }

    def _place(self, kind: str, name: str) -> Path:
        folder = self.folder / kind
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / name
