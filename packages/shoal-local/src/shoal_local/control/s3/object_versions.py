"""ListObjectVersions in pages that go on where a version was deleted meanwhile.

moto looks for the version that a page's marker names, and finds nothing behind one that is gone. It
also copies all versions of the bucket for each page, and never encodes names.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import quote

from moto.core.utils import unix_time_millis
from moto.s3.models import FakeDeleteMarker, S3Backend
from moto.s3.responses import S3Response

Page = tuple[list[Any], list[str], list[Any], str | None, str | None]
# S3 API reference, ListObjectVersions, EncodingType: some names have no place in XML
_ENCODED = ("Delimiter", "Key", "KeyMarker", "NextKeyMarker", "Prefix")
_serialized_by_moto = S3Response.serialized


def list_object_versions(
    backend: S3Backend,
    bucket_name: str,
    delimiter: str | None = None,
    key_marker: str | None = None,
    max_keys: int = 1000,
    prefix: str = "",
    version_id_marker: str | None = None,
) -> Page:
    """Return versions, common prefixes, delete markers, and the markers of the next page."""
    keys = backend.get_bucket(bucket_name).keys
    entries = _entries(keys, prefix, delimiter or "", key_marker or "", version_id_marker or "")
    page = list(islice(entries, max_keys + 1))
    is_truncated = len(page) > max_keys > 0
    page = page[:max_keys]
    last_name, last = page[-1] if is_truncated else (None, None)
    versions = [version for _, version in page if version is not None]
    return (
        [each for each in versions if not isinstance(each, FakeDeleteMarker)],
        [name for name, version in page if version is None],
        [each for each in versions if isinstance(each, FakeDeleteMarker)],
        last_name,
        None if last is None else _id_of(last),
    )


def _entries(
    keys: Any, prefix: str, delimiter: str, key_marker: str, version_marker: str
) -> Iterator[tuple[str, Any]]:
    """Yield, behind the markers, names with their versions, the newest first; common prefixes have
    none.
    """
    group = key_marker
    for name in sorted(name for name in keys if name.startswith(prefix)):
        head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        if found:
            common = prefix + head + delimiter
            if common > group:
                yield common, None
                group = common
        elif name >= key_marker:
            # reversed: of two versions within a millisecond the later one comes first
            versions = list(reversed(keys.getlist(name, [])))
            versions.sort(key=lambda each: -float(unix_time_millis(each.last_modified)))
            for number, version in enumerate(versions):
                version.is_latest = number == 0
            if name == key_marker:
                versions = _behind(versions, version_marker)
            yield from ((name, version) for version in versions)


def _behind(versions: list[Any], marker: str) -> list[Any]:
    """Return the versions behind a marker: none of a key without one, all where it is gone."""
    ids = [_id_of(each) for each in versions]
    return versions[ids.index(marker) + 1 :] if marker in ids else versions if marker else []


def _id_of(version: Any) -> str:
    return version.version_id or "null"


def serialized(response: S3Response, answer: Any) -> Any:
    """Answer as moto does, with the names in a page of versions encoded where that is asked for."""
    is_page = response.data.get("Action") == "ListObjectVersions"
    if is_page and response.querystring.get("encoding-type") == ["url"]:
        page = answer.result
        page["EncodingType"] = "url"
        prefixes = page.get("CommonPrefixes", [])
        for each in (page, *page["Versions"], *page["DeleteMarkers"], *prefixes):
            each |= {name: quote(each[name]) for name in _ENCODED if each.get(name)}
    return _serialized_by_moto(response, answer)


PATCHES: tuple[tuple[object, str, Any], ...] = (
    (S3Backend, "list_object_versions", list_object_versions),
    (S3Response, "serialized", serialized),
)
