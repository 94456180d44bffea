"""A model that is kept as files is sealed file by file, with policies applied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local_kit.control import allow
from shoal.aws.model_archive import checksums_below, digest_of
from shoal_local.testing import LocalAccount
from tests.functions.test_seal import BUCKET
from tests.functions.test_seal_in_parts import PART, account, composite, s3, seal

__all__ = ["account", "s3"]  # fixtures

BELOW = "training/abcdefghijkl/pipelines-abcdefghijkl-Train/output/model"
LARGE = b"".join(bytes([number]) * PART for number in range(2)) + b"the end"
FILES = {"model.pt": LARGE, "code/inference.py": b"serve", "vocab.txt": b"a b"}
WHOLE = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
LISTED = digest_of(WHOLE | {"model.pt": composite(LARGE)})
SEALED = f"models/{LISTED}/model/"
DIGESTS = {
    "model_data_url": f"s3://{BUCKET}/{BELOW}",
    "archive_sha256": LISTED,
    "content_sha256": digest_of(WHOLE),
}


@pytest.fixture
def bucket(s3: Any, account: LocalAccount) -> Any:
    listing = json.dumps(allow(["s3:ListBucket"], f"arn:aws:s3:::{BUCKET}"))
    account.client("iam").put_role_policy(
        RoleName="seal", PolicyName="ListFiles", PolicyDocument=listing
    )
    for name, content in FILES.items():
        s3.put_object(Bucket=BUCKET, Key=f"{BELOW}/{name}", Body=content)
    return s3


def sealed(client: Any) -> dict[str, bytes]:
    page = client.list_objects_v2(Bucket=BUCKET, Prefix=SEALED)
    names = [each["Key"].removeprefix(SEALED) for each in page.get("Contents", ())]
    get = partial(client.get_object, Bucket=BUCKET)
    return {name: get(Key=SEALED + name)["Body"].read() for name in names}


def test_the_files_are_copied_under_the_digest_of_their_list_and_once(
    bucket: Any, account: LocalAccount, tmp_path: Path
) -> None:
    for url in (f"s3://{BUCKET}/{BELOW}", f"s3://{BUCKET}/{BELOW}/"):
        outcome = seal(account, tmp_path, **DIGESTS | {"model_data_url": url})
        assert outcome.result["model_data_url"] == f"s3://{BUCKET}/{SEALED}", outcome.error
        assert sealed(bucket) == FILES
    versions = bucket.list_object_versions(Bucket=BUCKET, Prefix=SEALED)["Versions"]
    assert len(versions) == len(FILES)


OTHER = "it was written again after it was evaluated"


@pytest.mark.parametrize(
    ("written", "changes", "says"),
    [
        ({f"{BELOW}/vocab.txt": b"another"}, {}, OTHER),
        ({f"{BELOW}/model.pt": LARGE[:-1] + b"D"}, {}, OTHER),
        ({f"{BELOW}/code/more.py": b""}, {}, OTHER),
        ({f"{BELOW}/folder/": b""}, {}, "has 'folder/', which cannot be a file's name"),
        ({f"{SEALED}code/more.py": b""}, {}, "has other files, too"),
        ({}, {"content_sha256": digest_of({"model.pt": WHOLE["model.pt"]})}, "leaves out code, v"),
    ],
)
def test_what_is_not_as_it_was_evaluated_fails_the_step(
    bucket: Any,
    account: LocalAccount,
    tmp_path: Path,
    written: dict[str, bytes],
    changes: dict[str, str],
    says: str,
) -> None:
    for key, content in written.items():
        bucket.put_object(Bucket=BUCKET, Key=key, Body=content)
    assert says in seal(account, tmp_path, **DIGESTS | changes).error
    assert set(sealed(bucket)) in ({*FILES}, {"code/more.py", *FILES}, set())


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([f"m.json\n{'0' * 64}  model.safetensors"], "cannot be a file's name"),
        (map(str, range(10_001)), "has more than 10000 files"),
    ],
)
def test_names_that_cannot_be_in_the_list_are_refused(names: Iterable[str], says: str) -> None:
    pages = [{"Contents": [{"Key": f"{BELOW}/{name}"} for name in names]}]
    lister = SimpleNamespace(paginate=lambda **_: pages)
    client = SimpleNamespace(get_paginator=lambda _: lister, head_object=lambda **_: {})
    with pytest.raises(ValueError, match=says):
        checksums_below(client, BUCKET, f"{BELOW}/")
