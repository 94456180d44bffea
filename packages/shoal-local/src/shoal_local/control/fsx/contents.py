"""The files of one data repository association: a folder that shows what FSx would have imported
from an S3 prefix.

FSx imports names at once (at creation with BatchImportMetaDataOnCreate, later by AutoImportPolicy)
and an object's content when it is first read. Here both happen when a job mounts a directory: the
prefix is compared with the last listing, and the content below the mounted directory is fetched.
Nothing is exported, because jobs mount read-only.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from boto3.s3.transfer import TransferConfig

_TRANSFER = TransferConfig(use_threads=False)
Objects = Mapping[str, str]
"""Path below the association's prefix to the object's ETag."""


def split_repository(path: str) -> tuple[str, str]:
    """Return bucket and prefix of `s3://bucket/prefix`; a prefix ends with a slash."""
    bucket, _, prefix = path.removeprefix("s3://").partition("/")
    return bucket, f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""


@dataclass
class Contents:
    """What the file system has of an association's prefix.

    `folder` is the association's directory. `staging` is outside of every such directory.
    """

    folder: Path
    repository: str
    staging: Path
    listing: dict[str, str] = field(default_factory=dict)
    """The repository when it was last compared."""
    imported: set[str] = field(default_factory=set)
    """Paths that the file system lists."""
    loaded: dict[str, str] = field(default_factory=dict)
    """The imported paths whose content was fetched, with its ETag."""

    def start(self, s3: Any, *, import_names: bool) -> None:
        """Import the names, if asked to; raise ClientError when the repository cannot be listed."""
        self.listing = dict(self._objects(s3))
        self.imported = set(self.listing) if import_names else set()
        self.folder.mkdir(parents=True, exist_ok=True)

    def follow(self, s3: Any, events: Iterable[str]) -> None:
        """Import what is NEW, CHANGED or DELETED in the repository, as far as `events` names it."""
        now, kinds = self._objects(s3), set(events)
        for path, tag in now.items():
            event = (
                "NEW"
                if path not in self.listing
                else "CHANGED"
                if self.listing[path] != tag
                else ""
            )
            if event in kinds:
                self.imported.add(path)
                self.loaded.pop(path, None)
        if "DELETED" in kinds:
            for path in set(self.listing) - set(now):
                self._forget(path)
        self.listing = dict(now)

    def load(self, s3: Any, below: str) -> None:
        """Fetch the content of imported paths `below` a path of the association's directory that is
        not here yet.
        """
        bucket, prefix = split_repository(self.repository)
        for path in sorted(self.imported):
            if path in self.loaded or path not in self.listing or not f"{path}/".startswith(below):
                continue
            target = self.folder / path
            for folder in (target.parent, self.staging.parent):
                folder.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, prefix + path, str(self.staging), Config=_TRANSFER)
            # atomic: a job that reads meanwhile sees the old content or the new
            self.staging.replace(target)
            self.loaded[path] = self.listing[path]

    def remove(self) -> None:
        """Delete the association's directory."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _forget(self, path: str) -> None:
        self.imported.discard(path)
        self.loaded.pop(path, None)
        (self.folder / path).unlink(missing_ok=True)

    def _objects(self, s3: Any) -> Objects:
        bucket, prefix = split_repository(self.repository)
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        objects = {
            each["Key"][len(prefix) :]: each["ETag"]
            for page in pages
            for each in page.get("Contents", [])
        }
        folders = {str(parent) for path in objects for parent in PurePosixPath(path).parents}
        return {
            path: tag for path, tag in objects.items() if _is_file(path) and path not in folders
        }


def _is_file(path: str) -> bool:
    """Return whether a key becomes a file.

    Folder markers do not, nor do keys that would lie outside the folder.
    """
    return (
        bool(path)
        and not path.endswith("/")
        and ".." not in path.split("/")
        and not path.startswith("/")
    )
