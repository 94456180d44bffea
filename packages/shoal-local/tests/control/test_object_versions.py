"""Versions of objects in pages, which stay right while they are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from local_kit.control import Account, unique

PUT, DELETED, KEYS = 1050, 60, 350


def entries(page: dict[str, Any]) -> list[dict[str, str]]:
    found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
    return [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]


@pytest.fixture(scope="module")
def bucket(account: Account) -> str:
    """A versioned bucket with 1,050 versions and 60 delete markers of 350 keys in 7 folders."""
    s3, name = account.client("s3"), unique("versions")
    s3.create_bucket(Bucket=name)
    enabled = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=enabled)

    def fill(key: int) -> None:
        path = f"{key % 7}/{key:04d}"
        for _ in range(PUT // KEYS):
            s3.put_object(Bucket=name, Key=path, Body=b"")
        if key < DELETED:
            s3.delete_object(Bucket=name, Key=path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(KEYS)))
    return name


def pages(s3: Any, bucket: str, **request: Any) -> Iterator[dict[str, Any]]:
    paginator = s3.get_paginator("list_object_versions")
    yield from paginator.paginate(Bucket=bucket, **request)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, PUT + DELETED),
        ({"PaginationConfig": {"PageSize": 499}}, PUT + DELETED),
        ({"Prefix": "3/"}, 159),
        ({"Prefix": "3/", "PaginationConfig": {"PageSize": 7}}, 159),
        ({"Prefix": "none/"}, 0),
        ({"Prefix": "3/", "Delimiter": "/"}, 159),
    ],
)
def test_pages_have_each_version_once(
    account: Account, bucket: str, request_: dict[str, Any], expected: int
) -> None:
    found = [
        each for page in pages(account.client("s3"), bucket, **request_) for each in entries(page)
    ]
    assert len(found) == len({each["VersionId"] for each in found}) == expected


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_folders_are_counted_once(account: Account, bucket: str, size: int) -> None:
    found = pages(account.client("s3"), bucket, Delimiter="/", PaginationConfig={"PageSize": size})
    prefixes = [each["Prefix"] for page in found for each in page.get("CommonPrefixes", [])]
    assert prefixes == [f"{number}/" for number in range(7)]


def test_the_newest_version_is_the_latest_and_comes_first(account: Account, bucket: str) -> None:
    s3 = account.client("s3")
    for body in (b"old", b"new"):
        s3.put_object(Bucket=bucket, Key="8/latest", Body=body)
    versions = s3.list_object_versions(Bucket=bucket, Prefix="8/")["Versions"]
    assert [each["IsLatest"] for each in versions] == [True, False]
    assert versions[0]["VersionId"] == s3.head_object(Bucket=bucket, Key="8/latest")["VersionId"]
    assert entries(s3.list_object_versions(Bucket=bucket, KeyMarker="8/latest")) == []
    behind = {"KeyMarker": "8/latest", "VersionIdMarker": versions[0]["VersionId"]}
    assert entries(s3.list_object_versions(Bucket=bucket, **behind)) == entries(
        {"Versions": versions[1:]}
    )
    for version in versions:
        s3.delete_object(Bucket=bucket, Key="8/latest", VersionId=version["VersionId"])


def test_a_bucket_is_emptied_page_by_page(account: Account, bucket: str) -> None:
    s3, deleted = account.client("s3"), 0
    for page in pages(s3, bucket):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": entries(page), "Quiet": True})
        deleted += len(entries(page))
    assert deleted == PUT + DELETED
    s3.delete_bucket(Bucket=bucket)
