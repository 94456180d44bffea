"""The commit whose training code a run had: found by content, so nothing is written at a deployment
and a commit that leaves the code alone deploys nothing.
"""

from __future__ import annotations

import posixpath
import tempfile
from functools import lru_cache
from urllib.parse import urlsplit

from shoal.verbs.errors import AnswerError
from shoal.verbs.model_archive import MAX_CODE_BYTES, files_in, read
from shoal.verbs.repository import Repository, hash_as
from shoal.verbs.target import Target

_MAX_COMMITS = 100
"""Commits that changed the code: so far back a run is looked for."""


def commit_of(repository: Repository, folder: str, target: Target, code_uri: str) -> str | None:
    """Return the newest commit whose `folder` has the very files of a code archive; None if no
    commit of this checkout has.

    Raises ClientError if the archive cannot be read, ArchiveError if it is none.
    """
    try:
        head = repository.head()
    except AnswerError:  # no repository, or no commit in it
        return None
    return _find(repository, head, folder, _files(target, code_uri, head))


def _files(target: Target, code_uri: str, like: str) -> frozenset[tuple[str, str]]:
    place = urlsplit(code_uri)
    body = target.client("s3").get_object(Bucket=place.netloc, Key=place.path.lstrip("/"))["Body"]
    with tempfile.TemporaryFile() as archive:
        archive.write(body.read(MAX_CODE_BYTES))
        return frozenset(
            (posixpath.normpath(member.name), hash_as(like, read(file)))
            for member, file in files_in(archive, MAX_CODE_BYTES)
            if file
        )


@lru_cache(maxsize=64)
def _find(
    repository: Repository, _head: str, folder: str, files: frozenset[tuple[str, str]]
) -> str | None:
    """Look once for each code archive: a page that follows a run asks every second."""
    for commit in repository.commits_of(folder, _MAX_COMMITS):
        committed = repository.files(commit, folder).items()
        if files == {item for item in committed if _is_archived(item[0])}:
            return commit
    return None


def _is_archived(path: str) -> bool:
    """Return whether `stacks/constructs/code_archive.py` takes a file."""
    parts = path.split("/")
    return "__pycache__" not in parts and not any(part.startswith(".") for part in parts)
