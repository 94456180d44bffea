"""ECR's layers: what an upload must be, and what is refused, as ECR's API reference says."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.tests.control.account import Account, unique

LAYER = b"layer"
DIGEST = f"sha256:{hashlib.sha256(LAYER).hexdigest()}"
OTHER = f"sha256:{'0' * 64}"


class Uploading:
    """An upload to a new repository."""

    def __init__(self, account: Account) -> None:
        self.ecr = account.client("ecr")
        self.repository = {"repositoryName": unique("layers")}
        self.ecr.create_repository(**self.repository)
        self.begin()

    def begin(self) -> None:
        self.which = {
            **self.repository,
            "uploadId": self.ecr.initiate_layer_upload(**self.repository)["uploadId"],
        }

    def part(self, first: int, content: bytes) -> dict[str, Any]:
        place = {"partFirstByte": first, "partLastByte": first + len(content) - 1}
        return dict(self.ecr.upload_layer_part(**self.which, **place, layerPartBlob=content))

    def complete(self, digest: str = DIGEST) -> dict[str, Any]:
        return dict(self.ecr.complete_layer_upload(**self.which, layerDigests=[digest]))


@pytest.fixture
def upload(account: Account) -> Uploading:
    return Uploading(account)


def test_a_layer_can_be_read_once_it_is_complete_and_in_its_repository_only(
    upload: Uploading, account: Account
) -> None:
    assert upload.part(0, LAYER)["lastByteReceived"] == len(LAYER) - 1
    with pytest.raises(ClientError, match="LayersNotFoundException"):
        upload.ecr.get_download_url_for_layer(**upload.repository, layerDigest=DIGEST)
    assert upload.complete()["layerDigest"] == DIGEST
    url = upload.ecr.get_download_url_for_layer(**upload.repository, layerDigest=DIGEST)[
        "downloadUrl"
    ]
    with urllib.request.urlopen(url) as body:
        assert body.read() == LAYER
    (layer,) = upload.ecr.batch_check_layer_availability(
        **upload.repository, layerDigests=[DIGEST]
    )["layers"]
    assert (layer["layerAvailability"], layer["layerSize"]) == ("AVAILABLE", len(LAYER))
    with pytest.raises(ClientError, match="LayersNotFoundException"):
        upload.ecr.get_download_url_for_layer(**Uploading(account).repository, layerDigest=DIGEST)


def test_a_url_that_was_not_given_out_gives_nothing(account: Account) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{account.endpoint}/_shoal/ecr/guessed")


def test_a_digest_that_is_not_that_of_the_bytes_is_refused(upload: Uploading) -> None:
    upload.part(0, LAYER)
    with pytest.raises(ClientError, match="InvalidLayerException"):
        upload.complete(OTHER)


def test_parts_must_follow_each_other(upload: Uploading) -> None:
    upload.part(0, LAYER)
    for first in (0, len(LAYER) + 1):
        with pytest.raises(ClientError, match="InvalidLayerPartException"):
            upload.part(first, LAYER)


def test_only_the_last_part_may_be_small(upload: Uploading) -> None:
    whole = LAYER + LAYER
    upload.part(0, LAYER)
    upload.part(len(LAYER), LAYER)
    with pytest.raises(ClientError, match="LayerPartTooSmallException"):
        upload.complete(f"sha256:{hashlib.sha256(whole).hexdigest()}")


def test_an_upload_of_nothing_is_refused(upload: Uploading) -> None:
    with pytest.raises(ClientError, match="EmptyUploadException"):
        upload.complete()


def test_an_upload_ends_once_and_a_layer_is_there_once(upload: Uploading) -> None:
    upload.part(0, LAYER)
    upload.complete()
    with pytest.raises(ClientError, match="UploadNotFoundException"):
        upload.complete()
    upload.begin()
    upload.part(0, LAYER)
    with pytest.raises(ClientError, match="LayerAlreadyExistsException"):
        upload.complete()


def test_a_repository_that_is_not_there_takes_no_layer(account: Account) -> None:
    with pytest.raises(ClientError, match="RepositoryNotFoundException"):
        account.client("ecr").initiate_layer_upload(repositoryName="none")


def test_an_image_has_the_digest_of_its_manifest_and_no_other(upload: Uploading) -> None:
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "layers": [],
        }
    )
    with pytest.raises(ClientError, match="ImageDigestDoesNotMatchException"):
        upload.ecr.put_image(
            **upload.repository, imageManifest=manifest, imageTag="v1", imageDigest=OTHER
        )
    upload.ecr.put_image(**upload.repository, imageManifest=manifest, imageTag="v1")
    (image,) = upload.ecr.batch_get_image(**upload.repository, imageIds=[{"imageTag": "v1"}])[
        "images"
    ]
    digest = f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"
    assert (image["imageManifest"], image["imageId"]["imageDigest"]) == (manifest, digest)
