"""Objects that the emulator keeps in files, and their versions."""

from __future__ import annotations

from pathlib import Path

from local.tests.control.account import running

SIZE = 17 * 1024 * 1024
BUCKET = "large-objects"


def test_the_versions_of_a_large_object_are_listed_and_removed(tmp_path: Path) -> None:
    with running(tmp_path) as account:
        s3 = account.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        for content in (b"a", b"b"):
            s3.put_object(Bucket=BUCKET, Key="large", Body=content * SIZE)
        versions = s3.list_object_versions(Bucket=BUCKET)["Versions"]
        assert [each["Size"] for each in versions] == [SIZE, SIZE]
        assert s3.get_object(Bucket=BUCKET, Key="large")["Body"].read() == b"b" * SIZE
        for each in versions:
            s3.delete_object(Bucket=BUCKET, Key="large", VersionId=each["VersionId"])
        s3.delete_bucket(Bucket=BUCKET)
