"""Reads a manifest that has arrived in S3, and requests an execution that trains on its dataset.

A manifest is `datasets/NAME/<file>` in the data bucket: JSON with `files`, paths relative to its
own folder. It is uploaded last, so it says that the dataset is complete. That is verified here: a
missing or empty file makes the manifest wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any

from start import StartRequest

MAX_BYTES = 1024 * 1024
ORIGIN = "(manifest)"
_KEY = re.compile(r"^datasets/[A-Za-z0-9][A-Za-z0-9._-]*/([A-Za-z0-9][A-Za-z0-9._-]*)\Z")


class ManifestError(Exception):
    """A manifest is wrong.

    Trying again does not help; it is raised so that the function's alarm rings.
    """


def request_of(s3: Any, event: dict[str, Any]) -> StartRequest:
    """Return what the manifest requests.

    Raises ManifestError where it is malformed or names a file that is missing or empty.
    """
    bucket, arrived = event["detail"]["bucket"]["name"], event["detail"]["object"]
    key, version = arrived["key"], arrived.get("version-id") or arrived["etag"]
    uri = f"s3://{bucket}/{key}"
    match = _KEY.match(key)
    if bucket != os.environ["DATA_BUCKET"] or not match or match[1] != os.environ["MANIFEST_FILE"]:
        raise ManifestError(
            f"{uri} is no manifest: they are s3://{os.environ['DATA_BUCKET']}/datasets/NAME/{os.environ['MANIFEST_FILE']}"
        )
    folder = key.rpartition("/")[0]
    files = _files(s3, bucket, key, arrived, uri)
    sizes, pages = dict[str, int](), s3.get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=bucket, Prefix=f"{folder}/"):
        sizes |= {each["Key"]: each["Size"] for each in page.get("Contents", [])}
    if missing := sorted(file for file in files if not sizes.get(f"{folder}/{file}")):
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        missing_files = ", ".join(missing[:3]) + more
        raise ManifestError(f"{uri} names files that are not there or empty: {missing_files}")
    places = {"{manifest}": uri, "{folder}": f"s3://{bucket}/{folder}"}
    identity = hashlib.sha256(f"{uri} {version}".encode()).hexdigest()
    return StartRequest(
        origin=ORIGIN,
        token=identity,
        name=f"manifest-{identity[:24]}",
        description=f"Started by {uri}, version {version}",
        log_label=f"manifest {uri}, version {version}",
        parameters={
            name: _filled(value, places)
            for name, value in json.loads(os.environ["MANIFEST_PARAMETERS"]).items()
        },
    )


def _filled(template: str, places: dict[str, str]) -> str:
    for mark, value in places.items():
        template = template.replace(mark, value)
    return template


def _files(s3: Any, bucket: str, key: str, arrived: dict[str, Any], uri: str) -> list[str]:
    if arrived["size"] > MAX_BYTES:
        raise ManifestError(
            f"{uri} has {arrived['size']} bytes; a manifest has at most {MAX_BYTES}"
        )
    version = {"VersionId": arrived["version-id"]} if arrived.get("version-id") else {}
    try:
        document = json.loads(s3.get_object(Bucket=bucket, Key=key, **version)["Body"].read())
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{uri} is no JSON: {error}") from error
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, list) or not files or not all(_is_path(each) for each in files):
        raise ManifestError(f"{uri} has no `files`, a list of paths below its own folder")
    return files


def _is_path(value: Any) -> bool:
    return (
        isinstance(value, str)
        and value != ""
        and not value.startswith("/")
        and ".." not in value.split("/")
    )
