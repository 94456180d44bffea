"""What one copy or one object cannot seal: large archives in parts, and models kept as files."""

import base64
import gzip
import hashlib
import importlib.util
import io
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local_kit.control import allow, make_role, put_policies
from shoal.aws.model_archive import checksums_below, content_sha256, digest_of
from shoal_local.testing import LocalAccount, emulator
from tests.cli.trained import archive
from tests.functions.invocation import FUNCTIONS, Outcome, invoke, session_of
from tests.functions.test_seal import BUCKET, EVENT, KEY, RESULT
from tests.repository import CHECKOUT

PART = 5 * 1024**2
"""The smallest that S3 takes."""
WEIGHTS = b"".join(bytes([number]) * PART for number in range(2)) + b"the end"
ARCHIVE = gzip.compress(gzip.decompress(archive({"model.pt": WEIGHTS})), 0, mtime=0)
"""Stored as it is: larger than two parts."""
CONTENT = content_sha256(io.BytesIO(ARCHIVE))
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()
SEALED = f"models/{SHA256}/model.tar.gz"
READ = ["s3:GetObject", "s3:GetObjectVersion"]
MAY: dict[str, tuple[list[str], str]] = {
    "ReadArchives": (READ, "training"),
    "ReadSealed": (READ, "models"),
    "WriteSealed": (["s3:PutObject", "s3:AbortMultipartUpload"], "models"),
}
"""As `packages/shoal/src/shoal/constructs/storage.py` allows the function; the bucket has no key
here."""
SMALL = f"""
import sys
sys.path.insert(0, {str(FUNCTIONS / "seal")!r})
import sealed_archive
from sealer import handler
sealed_archive.MAX_BYTES, sealed_archive.PART_BYTES = {2 * PART}, {PART}
"""


def composite(content: bytes) -> str:
    """Return S3's checksum of an object in parts: of the parts' checksums."""
    starts = range(0, len(content), PART)
    digests = [hashlib.sha256(content[start : start + PART]).digest() for start in starts]
    whole = hashlib.sha256(b"".join(digests)).digest()
    return f"{base64.b64encode(whole).decode()}-{len(digests)}"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAccount]:
    with emulator(tmp_path_factory.mktemp("parts"), "--enforce-iam") as local:
        s3, iam = local.account.client("s3"), local.account.client("iam")
        policies = {
            name: allow(actions, f"arn:aws:s3:::{BUCKET}/{prefix}/*")
            for name, (actions, prefix) in MAY.items()
        }
        make_role(iam, "seal", {"AWS": local.account.number}, policies)
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        yield local.account


@pytest.fixture
def s3(account: LocalAccount) -> Iterator[Any]:
    """Yield a client of an account with the archive that was evaluated, and nothing sealed."""
    client = account.client("s3")
    client.put_object(Bucket=BUCKET, Key=KEY, Body=ARCHIVE, Metadata={"by": "a job"})
    yield client
    assert "Uploads" not in client.list_multipart_uploads(Bucket=BUCKET)
    for each in client.list_object_versions(Bucket=BUCKET).get("Versions", []):
        client.delete_object(Bucket=BUCKET, Key=each["Key"], VersionId=each["VersionId"])


def seal(account: LocalAccount, folder: Path, **changes: Any) -> Outcome:
    """Run the function with parts of 5 MiB, and whole copies up to twice that."""
    (folder / "small.py").write_text(SMALL)
    digests = {
        "archive_sha256": SHA256,
        "archive_composite_sha256": composite(ARCHIVE),
        "content_sha256": CONTENT,
    }
    return invoke(
        str(folder),
        EVENT | digests | changes,
        endpoint_url=account.endpoint,
        environment=session_of(account.client("sts"), f"arn:aws:iam::{account.number}:role/seal"),
        module="small",
    )


def test_a_large_archive_is_sealed_in_parts_and_once(
    s3: Any, account: LocalAccount, tmp_path: Path
) -> None:
    changes = {
        "archive_sha256": SHA256,
        "content_sha256": CONTENT,
        "model_data_url": f"s3://{BUCKET}/{SEALED}",
    }
    for _ in range(2):
        assert seal(account, tmp_path).result == RESULT | changes
        head = s3.head_object(Bucket=BUCKET, Key=SEALED, ChecksumMode="ENABLED")
        assert (head["ChecksumSHA256"], head["Metadata"]) == (composite(ARCHIVE), {})
    assert len(s3.list_object_versions(Bucket=BUCKET, Prefix=SEALED)["Versions"]) == 1
    assert s3.get_object(Bucket=BUCKET, Key=SEALED)["Body"].read() == ARCHIVE


def test_another_archive_that_is_said_to_have_its_sha256_does_not_replace_it(
    s3: Any, account: LocalAccount, tmp_path: Path
) -> None:
    seal(account, tmp_path)
    other = ARCHIVE[:-1] + b"D"
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=other)
    error = seal(account, tmp_path, archive_composite_sha256=composite(other)).error
    assert "has another archive, which is not replaced" in error
    assert s3.get_object(Bucket=BUCKET, Key=SEALED)["Body"].read() == ARCHIVE


@pytest.mark.parametrize("content", [ARCHIVE[:-1] + b"D", ARCHIVE[1:], b"small"])
def test_one_that_was_written_again_after_the_evaluation_is_not(
    s3: Any, account: LocalAccount, tmp_path: Path, content: bytes
) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=content)
    error = seal(account, tmp_path).error
    assert "it was written again after it was evaluated" in error
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET, Prefix=SEALED)


@pytest.mark.parametrize("value", [None, "", SHA256, composite(ARCHIVE).partition("-")[0]])
def test_without_the_checksum_of_its_parts_it_is_not(
    s3: Any, account: LocalAccount, tmp_path: Path, value: str | None
) -> None:
    error = seal(account, tmp_path, archive_composite_sha256=value).error
    assert "what does evaluation.json say at model.archive_composite_sha256?" in error
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET, Prefix="models/")


def test_an_evaluation_hashes_files_as_the_seal_copies_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CHECKOUT / "training_code" / "common" / "archive.py"
    spec = importlib.util.spec_from_file_location("its_archive", file)
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert (script.MAX_WHOLE_BYTES, script.PART_BYTES) == (5 * 1024**3, 512 * 1024**2)
    monkeypatch.setattr(script, "MAX_WHOLE_BYTES", 2 * PART)
    monkeypatch.setattr(script, "PART_BYTES", PART)
    for content in (WEIGHTS, WEIGHTS[: 2 * PART + 1]):
        (tmp_path / "file").write_bytes(content)
        assert script.s3_sha256(tmp_path / "file") == composite(content)


BELOW = "training/abcdefghijkl/pipelines-abcdefghijkl-Train/output/model"
LARGE = b"".join(bytes([number]) * PART for number in range(2)) + b"the end"
FILES = {"model.pt": LARGE, "code/inference.py": b"serve", "vocab.txt": b"a b"}
WHOLE = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
LISTED = digest_of(WHOLE | {"model.pt": composite(LARGE)})
SEALED_FILES = f"models/{LISTED}/model/"
DIGESTS = {
    "model_data_url": f"s3://{BUCKET}/{BELOW}",
    "archive_sha256": LISTED,
    "content_sha256": digest_of(WHOLE),
}


@pytest.fixture
def bucket(s3: Any, account: LocalAccount) -> Any:
    listing = allow(["s3:ListBucket"], f"arn:aws:s3:::{BUCKET}")
    put_policies(account.client("iam"), "seal", {"ListFiles": listing})
    for name, content in FILES.items():
        s3.put_object(Bucket=BUCKET, Key=f"{BELOW}/{name}", Body=content)
    return s3


def sealed(client: Any) -> dict[str, bytes]:
    page = client.list_objects_v2(Bucket=BUCKET, Prefix=SEALED_FILES)
    names = [each["Key"].removeprefix(SEALED_FILES) for each in page.get("Contents", ())]
    get = partial(client.get_object, Bucket=BUCKET)
    return {name: get(Key=SEALED_FILES + name)["Body"].read() for name in names}


def test_the_files_are_copied_under_the_digest_of_their_list_and_once(
    bucket: Any, account: LocalAccount, tmp_path: Path
) -> None:
    for url in (f"s3://{BUCKET}/{BELOW}", f"s3://{BUCKET}/{BELOW}/"):
        outcome = seal(account, tmp_path, **DIGESTS | {"model_data_url": url})
        assert outcome.result["model_data_url"] == f"s3://{BUCKET}/{SEALED_FILES}", outcome.error
        assert sealed(bucket) == FILES
    versions = bucket.list_object_versions(Bucket=BUCKET, Prefix=SEALED_FILES)["Versions"]
    assert len(versions) == len(FILES)


OTHER = "it was written again after it was evaluated"


@pytest.mark.parametrize(
    ("written", "changes", "says"),
    [
        ({f"{BELOW}/vocab.txt": b"another"}, {}, OTHER),
        ({f"{BELOW}/model.pt": LARGE[:-1] + b"D"}, {}, OTHER),
        ({f"{BELOW}/code/more.py": b""}, {}, OTHER),
        ({f"{BELOW}/folder/": b""}, {}, "has 'folder/', which cannot be a file's name"),
        ({f"{SEALED_FILES}code/more.py": b""}, {}, "has other files, too"),
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
