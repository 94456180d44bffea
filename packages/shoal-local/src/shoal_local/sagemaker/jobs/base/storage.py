"""A job's data in S3, over HTTP with its role's credentials: prefixes to folders, folders to
prefixes, archives.

AWS reports a `DataError` as a ClientError of the job.
"""

import filecmp
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.archives import MAX_UNPACKED_BYTES, Budget, TooLargeError
from shoal_local.processes import in_thread

_TRANSFER = TransferConfig(use_threads=False)
_SYNC_EVERY_S = 2.0
S3_FAILURES = (ClientError, BotoCoreError, S3UploadFailedError)


class DataError(Exception):
    """Input cannot be read, or output cannot be written; `str()` is part of a FailureReason."""


def split_uri(uri: str) -> tuple[str, str]:
    """Return bucket and key (or key prefix) of `s3://bucket/key`."""
    if not uri.startswith("s3://") or not uri[5:].partition("/")[0]:
        raise DataError(f"Not a valid S3 URI: {uri}")
    bucket, _, key = uri[5:].partition("/")
    return bucket, key


def join_uri(*parts: str) -> str:
    first, *rest = parts
    return "/".join([first.rstrip("/"), *(part.strip("/") for part in rest)])


def keys_below(s3: Any, uri: str) -> list[str]:
    """Return the keys that start with the URI's prefix, sorted, without folder markers."""
    bucket, prefix = split_uri(uri)
    try:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [
            each["Key"]
            for page in pages
            for each in page.get("Contents", [])
            if not each["Key"].endswith("/")
        ]
    except S3_FAILURES as error:
        raise DataError(f"Could not list {uri}: {error}") from error


def no_objects_message(s3: Any, uri: str, role_arn: str) -> str:
    """Return what CreateTrainingJob says about a prefix without objects, as users report it."""
    return (
        f'No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that'
        f" the bucket exists in the selected region ({s3.meta.region_name}), that objects exist"
        f' under that S3 prefix, and that the role "{role_arn}" has "s3:ListBucket" permissions on'
        f' bucket "{split_uri(uri)[0]}".'
    )


def fetch_prefix(
    s3: Any, uri: str, target: Path, keep: Callable[[int], bool] = lambda _position: True
) -> int:
    """Download the objects below `uri`, by paths relative to it; return how many there are.
    `keep(position)` chooses from the sorted list (ShardedByS3Key).
    """
    bucket, prefix = split_uri(uri)
    keys = keys_below(s3, uri)
    target.mkdir(parents=True, exist_ok=True)
    # AWS's words, as in aws-samples/generative-ai-on-amazon-sagemaker, pull request 242
    if illegal := next((key for key in keys if "//" in key), ""):
        raise DataError(
            f"Failed to download data. S3 key: s3://{bucket}/{illegal} has an illegal char"
            " sub-sequence '//' in it"
        )
    for position, key in enumerate(keys):
        if keep(position):
            fetch_object(s3, bucket, key, _inside(target, relative_key(key, prefix)))
    return len(keys)


def fetch_input(s3: Any, uri: str, target: Path, role_arn: str, **options: Any) -> None:
    """Download a job's input by `fetch_prefix`; raise DataError in AWS's words, also for none."""
    try:
        count = fetch_prefix(s3, uri, target, **options)
    except DataError as error:
        raise DataError(f"Data download failed:{error}") from error
    if not count:
        raise DataError(f"Data download failed:{no_objects_message(s3, uri, role_arn)}")


def relative_key(key: str, prefix: str) -> str:
    """Return the path of an object below the prefix that found it."""
    if key == prefix:
        return key.rpartition("/")[2]
    if prefix.endswith("/") or key[len(prefix) :].startswith("/") or not prefix:
        return key[len(prefix) :].lstrip("/")
    return key[prefix.rfind("/") + 1 :]


def _inside(folder: Path, relative: str) -> Path:
    try:
        path = (folder / relative).resolve()
    except ValueError as error:
        raise DataError(f"The key {relative!r} cannot be the name of a file: {error}") from error
    if not path.is_relative_to(folder.resolve()):
        raise DataError(f"The key {relative} leads out of its folder")
    return path


def fetch_object(s3: Any, bucket: str, key: str, target: Path) -> None:
    """Download one object with a single request: a HEAD request would be refused without a reason.

    Raise DataError also if the key cannot be a file's path. Where the key `a` is a file, `a/b` has
    no folder; and parts of a path must be shorter than a key may be.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(s3.get_object(Bucket=bucket, Key=key)["Body"], file)
    except S3_FAILURES as error:
        raise DataError(f"Could not download s3://{bucket}/{key}: {error}") from error
    except OSError as error:
        raise DataError(f"Could not store s3://{bucket}/{key}: {error.strerror}") from error


def put_file(s3: Any, source: Path, uri: str, kms_key: str = "") -> None:
    bucket, key = split_uri(uri)
    extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else None
    try:
        s3.upload_file(str(source), bucket, key, ExtraArgs=extra, Config=_TRANSFER)
    except S3_FAILURES as error:
        raise DataError(f"Could not upload to {uri}: {error}") from error


def files_in(folder: Path) -> list[Path]:
    """Return every file of `folder`, which a container has filled.

    Raise DataError for a name that is not UTF-8, as keys in S3 are, and for a link out of the
    folder. Outside of the container it leads to files of this machine that the container never saw.
    """
    _require_own(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in files:
        name = bytes(path.relative_to(folder))
        try:
            name.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"The file name {name!r} is not UTF-8, as keys in S3 are") from error
        if not path.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{path.relative_to(folder)} is a link that leads out of its folder")
    return files


def _require_own(folder: Path) -> None:
    if folder.is_symlink():
        raise DataError(f"The container has put a link in the place of its folder {folder.name}")


def put_folder(s3: Any, folder: Path, uri: str, kms_key: str = "") -> int:
    """Upload every file of `folder`; return how many there were."""
    files = files_in(folder)
    for path in files:
        put_file(s3, path, join_uri(uri, str(path.relative_to(folder))), kms_key)
    return len(files)


def archive(folder: Path, target: Path) -> bool:
    """Write the content of `folder` to `target` (.tar.gz); return False, and write nothing, if it
    is empty.

    A link is replaced by its target, because `unpack_tar` takes none. A link stays a link if it
    leads out of the folder, to nothing, or to a folder that contains it.
    """
    _require_own(folder)
    entries = sorted(folder.resolve().iterdir()) if folder.is_dir() else []
    if not entries:
        return False
    budget = Budget(MAX_UNPACKED_BYTES)  # links to folders full of links multiply
    try:
        # `dereference` is that of hard links; symbolic ones are resolved here
        with tarfile.open(target, "w:gz", compresslevel=1, dereference=True) as tar:
            for entry in entries:
                _add(tar, entry, entry.name, (folder.resolve(),), budget)
    except TooLargeError as error:
        target.unlink()
        raise DataError(f"The archive of {folder.name}: {error}") from error
    return True


def merge(folder: Path, other: Path) -> Iterator[str]:
    """Move the content of `other` into `folder`; yield the paths that have other content there."""
    for each in (folder, other):
        _require_own(each)
        each.mkdir(exist_ok=True)
    for path in sorted(other.iterdir()):
        target = folder / path.name
        if not (target.exists() or target.is_symlink()):
            path.rename(target)
        elif all(each.is_dir() and not each.is_symlink() for each in (path, target)):
            yield from (f"{path.name}/{name}" for name in merge(target, path))
        elif not _is_same(path, target):
            yield path.name


def _is_same(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    return filecmp.cmp(one, other, shallow=False)


def _add(
    tar: tarfile.TarFile, path: Path, name: str, above: tuple[Path, ...], budget: Budget
) -> None:
    """Add a file, or a folder with its content; `above` are the resolved folders around it."""
    real = _link_target(path, above)
    if real is None:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, str(path.readlink())
        tar.addfile(link)
        return
    budget.add_member()
    budget.use(0 if real.is_dir() else real.stat().st_size)
    tar.add(real, name, recursive=False)
    if real.is_dir():
        for entry in sorted(real.iterdir()):
            _add(tar, entry, f"{name}/{entry.name}", (*above, real), budget)


def _link_target(path: Path, above: tuple[Path, ...]) -> Path | None:
    """Return the file that `path` leads to; None for a link that must stay a link."""
    try:
        real = path.resolve(strict=True)
    # there is nothing, nothing that may be looked at, or only the link itself
    except (OSError, RuntimeError):
        return None
    return real if real.is_relative_to(above[0]) and real not in above else None


class FolderSync:
    """Uploads new and changed checkpoints of a folder until it is closed, and once more then."""

    def __init__(self, s3: Any, folder: Path, uri: str) -> None:
        self._s3, self._folder, self._uri = s3, folder, uri
        # what is there at the start came from S3
        self._uploaded = {path: self._state(path) for path in files_in(folder)}
        self._closing = threading.Event()
        self._thread = in_thread(f"sync to {uri}", self._run)

    def _run(self) -> None:
        while not self._closing.wait(_SYNC_EVERY_S):
            # a file may vanish while it is being replaced; `close` reports what stays wrong
            with suppress(DataError, FileNotFoundError):
                self._upload_changes()

    def _upload_changes(self) -> None:
        for path in files_in(self._folder):
            if self._uploaded.get(path) != (state := self._state(path)):
                put_file(self._s3, path, join_uri(self._uri, str(path.relative_to(self._folder))))
                self._uploaded[path] = state

    @staticmethod
    def _state(path: Path) -> tuple[int, int]:
        status = path.stat()
        return status.st_mtime_ns, status.st_size

    def close(self) -> None:
        """Upload the last changes; raise DataError if that fails."""
        self._closing.set()
        self._thread.join()
        self._upload_changes()
