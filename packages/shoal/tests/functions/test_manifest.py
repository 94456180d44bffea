"""Manifests that start nothing: each mistake is one sentence, raised before anything is started."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from local_kit.control import Account, running
from tests.functions.invocation import Outcome, invoke


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(tmp_path_factory.mktemp("emulator")) as emulator:
        yield emulator


@pytest.fixture
def bucket(account: Account) -> str:
    name = f"data-{uuid.uuid4().hex[:8]}"
    account.client("s3").create_bucket(Bucket=name)
    account.client("s3").put_object(Bucket=name, Key="datasets/digits/train/a", Body=b"1")
    account.client("s3").put_object(Bucket=name, Key="datasets/digits/test/empty", Body=b"")
    return name


def deliver(
    account: Account,
    bucket: str,
    body: bytes,
    key: str = "datasets/digits/manifest.json",
    **about: Any,
) -> Outcome:
    """Send the event of an upload to the function, in an account without a pipeline: a manifest
    that is accepted fails there.
    """
    etag = account.client("s3").put_object(Bucket=bucket, Key=key, Body=body)["ETag"].strip('"')
    s3_object = {"key": key, "size": len(body), "etag": etag, **about}
    event = {
        "source": "aws.s3",
        "detail-type": "Object Created",
        "detail": {"bucket": {"name": bucket}, "object": s3_object},
    }
    variables = {
        "PIPELINE_NAME": "none",
        "DATA_BUCKET": bucket,
        "MANIFEST_FILE": "manifest.json",
        "MANIFEST_PARAMETERS": json.dumps({"DataManifest": "{manifest}"}),
    }
    return invoke("start", event, endpoint_url=account.endpoint, environment=variables)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"files: [train/a]", "is no JSON"),
        (b"[" * 500_000, "is no JSON"),
        (b"[]", "has no `files`, a list of paths below its own folder"),
        (b'{"files": []}', "has no `files`"),
        (b'{"files": ["../other/a"]}', "has no `files`"),
        (b'{"files": ["/train/a"]}', "has no `files`"),
        (b'{"files": [7]}', "has no `files`"),
        (b'{"files": ["train/a", "train/b"]}', "names files that are not there or empty: train/b"),
        (b'{"files": ["test/empty"]}', "names files that are not there or empty: test/empty"),
    ],
)
def test_a_wrong_manifest_is_an_error_that_says_what_is_wrong(
    account: Account, bucket: str, body: bytes, says: str
) -> None:
    outcome = deliver(account, bucket, body)
    assert outcome.result is None
    assert outcome.error.startswith(f"ManifestError: s3://{bucket}/datasets/digits/manifest.json ")
    assert says in outcome.error


@pytest.mark.parametrize(
    "key",
    [
        "manifest.json",
        "datasets/manifest.json",
        "datasets/a/b/manifest.json",
        "datasets/digits/other.json",
    ],
)
def test_a_file_elsewhere_is_no_manifest(account: Account, bucket: str, key: str) -> None:
    assert (
        "is no manifest: they are s3://"
        in deliver(account, bucket, b'{"files": ["train/a"]}', key).error
    )


def test_a_manifest_too_large_to_be_one_is_not_read(account: Account, bucket: str) -> None:
    assert "a manifest has at most 1048576" in deliver(account, bucket, b"{}", size=2**21).error


def test_a_right_manifest_gets_as_far_as_the_pipeline(account: Account, bucket: str) -> None:
    """Proves that the refusals above are the manifest's."""
    error = deliver(account, bucket, b'{"files": ["train/a"]}').error
    assert "ManifestError" not in error
    assert "ListPipelineExecutions" in error
