"""The commit whose training code a run had: found by content, so nothing is written at a deployment
and a commit that leaves the code alone deploys nothing. Reports and promotion ask here.
"""

import posixpath
import tempfile
from contextlib import suppress
from typing import IO

from shoal.aws.model_archive import (
    MAX_CODE_BYTES,
    ArchiveError,
    deployed_name,
    plain_files_in,
    read,
)
from shoal.aws.objects import object_at
from shoal.aws.target import Target
from shoal.errors import AnswerError
from shoal.launch import watch
from shoal.repository import Repository, hash_as
from shoal.settings.parsing.plain_files import PACKAGE, SHARED, is_packed

MAX_COMMITS = 200
"""Commits that changed the code: so far back a run is looked for."""
Files = frozenset[tuple[str, str]]
"""Paths below source_dir, each with git's hash of the content."""


def commit_of(repository: Repository, folder: str, target: Target, code_uri: str) -> str | None:
    """Return the newest commit here whose `folder` has the very files of a code archive, if any.

    Raises ClientError if the archive cannot be read, ArchiveError if it is none.
    """
    try:
        head = repository.head()
    except AnswerError:  # no repository, or no commit in it
        return None
    place = object_at(code_uri)
    body = target.client("s3").get_object(**place)["Body"]
    with tempfile.TemporaryFile() as archive:
        archive.write(body.read(MAX_CODE_BYTES))
        return newest_commit(repository, folder, files_of(archive, place["Key"], head))


def files_of(archive: IO[bytes], key: str, like: str, *, any_watch: bool = False) -> Files:
    """Return the files of a code archive, hashed with the algorithm of the hash `like`: without
    the watch of this version, or with `any_watch` of whatever version deployed it.

    Raises ArchiveError if it cannot be read, or could be read in two ways, or is not the one that a
    deployment put at `key`: that is named by its content, so nobody can put another one in its
    place.
    """
    name = posixpath.basename(key).partition(".")[0]
    if (actual := deployed_name(archive)) != name:
        raise ArchiveError(f"it is named {name}; a deployment names its content {actual}")
    files = {path: read(file) for path, file in plain_files_in(archive, MAX_CODE_BYTES)}
    own = watch.without(files, any_version=any_watch)
    return frozenset((path, hash_as(like, file)) for path, file in own.items())


def newest_commit(repository: Repository, folder: str, files: Files) -> str | None:
    """Return the newest commit whose `folder` has just these files, if one has."""
    for commit in repository.commits_of([folder, SHARED], MAX_COMMITS):
        with suppress(AnswerError):  # a link: nothing was ever packed from there
            if has_files(repository, commit, folder, files):
                return commit
    return None


def has_files(repository: Repository, commit: str, folder: str, files: Files) -> bool:
    """Return whether a commit's `folder` has just these files; raise as `archived_files` does."""
    prefix = f"{PACKAGE}/"
    # The shared files of a commit do not count if the archive has none: not each workload imports
    # them.
    has_shared = any(path.startswith(prefix) for path, _ in files)
    archived = archived_files(repository, commit, folder).items()
    return files == {each for each in archived if has_shared or not each[0].startswith(prefix)}


def archived_files(repository: Repository, commit: str, folder: str) -> dict[str, str]:
    """Return git's hash of each file of `folder` that goes into a code archive, as of a commit, and
    of those that it may share with other workloads.

    Raises AnswerError if the repository does not have the commit, or the commit has a link there,
    which no archive is made of.
    """
    files = _packed(repository, commit, folder)
    if not any(path.split("/")[0] in (PACKAGE, f"{PACKAGE}.py") for path in files):
        shared = _packed(repository, commit, SHARED)
        files |= {f"{PACKAGE}/{path}": sha for path, sha in shared.items()}
    return files


def _packed(repository: Repository, commit: str, folder: str) -> dict[str, str]:
    for path in repository.links(commit, folder):
        if is_packed(path):
            raise AnswerError(f"{folder}/{path} is a link in {commit}, which is not packed")
    return {path: sha for path, sha in repository.files(commit, folder).items() if is_packed(path)}
