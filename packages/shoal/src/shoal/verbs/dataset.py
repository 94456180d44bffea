"""Datasets: what a workload's script writes, or what is in a folder."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from shoal.aws.events import Note, Report, Transferred
from shoal.aws.execution import check_parameters
from shoal.aws.target import Target
from shoal.errors import DatasetError, NotFoundError, error_code
from shoal.settings.loading.workload import load_workload, workload_file, workload_folder
from shoal.settings.names import Names
from shoal.settings.sections.channels import Channel, path_parameter, uri_parameter
from shoal.settings.settings import Environment
from shoal.verbs.workspace import Session

_PREPARE_S = 600
_NOT_FOUND = frozenset({"404", "NoSuchKey", "NoSuchBucket", "NotFound"})


@dataclass(frozen=True)
class DatasetFile:
    """One file of a dataset, and its channel."""

    channel: str
    name: str
    md5: str


def _upload(target: Target, sources: Mapping[DatasetFile, Path], uri: str, report: Report) -> int:
    s3 = target.client("s3")
    _require_bucket(s3, urlsplit(uri).netloc, target)
    missing = [file for file in sources if not _is_uploaded(s3, _location(uri, file), file)]
    total_bytes = sum(sources[file].stat().st_size for file in missing)
    progress = _progress(total_bytes, report)
    for file in missing:
        location = _location(uri, file)
        s3.upload_file(
            str(sources[file]),
            *location,
            ExtraArgs={"Metadata": {"md5": file.md5}},
            Callback=progress(file.name),
        )
    remark = "" if len(missing) == len(sources) else "; the others were there already"
    report(
        Note(
            f"{len(missing)} of {len(sources)} files uploaded to {uri} ({total_bytes:,}"
            f" bytes){remark}"
        )
    )
    return len(missing)


def upload_workload(
    target: Target, environment: Environment, root: Path, report: Report, folder: Path | None = None
) -> int:
    """Upload the dataset of an environment's workload, or what is in `folder`/CHANNEL/ instead.

    Returns the number of uploaded files. Raises DatasetError, also where there is neither a script
    nor a folder.
    """
    uri, channels = Names(environment).dataset_uri, environment.data.in_dataset
    if folder:
        return upload_folder(target, folder, uri, channels, report)
    script = require(environment, root)
    with tempfile.TemporaryDirectory(prefix="shoal-data-") as prepared:
        _prepare(script, Path(prepared), channels)
        return upload_folder(target, Path(prepared), uri, channels, report)


def upload_notices(environment: Environment, root: Path) -> Iterator[str]:
    """Yield a line where nothing that `shoal` runs writes the dataset, so that people upload it."""
    name, channels = environment.workload, environment.data.in_dataset
    if not channels or _script(environment, root):
        return
    folders = ", ".join(f"FOLDER/{channel}/" for channel in channels)
    yield (
        f"data.dataset {environment.data.dataset}: workload {name} has no script `prepare`;"
        f" `shoal data upload {environment.title} --from FOLDER` uploads {folders}"
    )


def require_uploaded(session: Session, parameters: Mapping[str, str]) -> str:
    """Raise DatasetError if a channel of an execution with `parameters` has no object in S3.

    CreateTrainingJob would refuse it (shoal-local's `no_objects_message` has the words), when the
    pipeline runs already. Returns a notice if the question is not allowed, else an empty text.
    Raises ParameterError for parameters that the deployed definition does not declare.
    """
    try:
        empty = {
            name: uri
            for name, uri in _places(session, parameters).items()
            if not _has_files(session.target, uri)
        }
    except ClientError as error:
        if error_code(error) != "AccessDenied":
            raise
        return f"whether the data is in S3 was not checked: {error.operation_name} is not allowed"
    if empty:
        places = " and ".join(f"{uri} (channel {name})" for name, uri in empty.items())
        raise DatasetError(f"there is nothing at {places}; {_how_to_fill(session, empty)}")
    return ""


def _places(session: Session, parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the prefix of each channel that the deployed pipeline has a parameter for.

    A file system shows what is below the dataset in the bucket, unless it is another directory.
    """
    declared = session.pipeline.definition().get("Parameters", [])
    check_parameters(declared, parameters)
    values = {each["Name"]: each.get("DefaultValue", "") for each in declared} | dict(parameters)
    places = {}
    for name in session.environment.data.channels:
        if uri := values.get(uri_parameter(name)):
            places[name] = uri
        elif path_parameter(name) in values.keys() - parameters.keys():
            places[name] = _below(session.environment, name)
    return places


def _below(environment: Environment, channel: str) -> str:
    return f"{Names(environment).dataset_uri}/{channel}/"


def _how_to_fill(session: Session, empty: Mapping[str, str]) -> str:
    """Return what to type; `data upload` writes only the channels that are below the dataset."""
    environment = session.environment
    if not any(uri == _below(environment, name) for name, uri in empty.items()):
        return "put the files there, or name another place"
    has_script = _script(environment, session.workspace.root) is not None
    return f"type `shoal data upload {session.arguments}{'' if has_script else ' --from FOLDER'}`"


def require(environment: Environment, root: Path) -> Path:
    """Return the script that writes the dataset of the environment's workload.

    Raises DatasetError if it has none.
    """
    script = _script(environment, root)
    if script is None:
        raise DatasetError(
            f"{workload_file(environment.workload)} has no `prepare`, a script that writes the"
            f" dataset; write one, or upload a folder of yours: `shoal data upload"
            f" {environment.title} --from FOLDER`"
        )
    return script


def _script(environment: Environment, root: Path) -> Path | None:
    """Return the script that writes the workload's dataset, if it has one."""
    if not (root / workload_file(environment.workload)).is_file():
        return None
    script = load_workload(environment.workload, root).prepare
    return workload_folder(environment.workload, root) / script if script else None


def upload_folder(
    target: Target, folder: Path, uri: str, channels: Mapping[str, Channel], report: Report
) -> int:
    """Upload the files below `folder`/CHANNEL/ that S3 lacks; returns their number.

    A channel that has files neither in the folder nor in S3 is an error, or a note if it is
    optional.
    """
    files = [
        DatasetFile(channel, path.relative_to(folder / channel).as_posix(), _md5(path))
        for channel in channels
        for path in sorted((folder / channel).rglob("*"))
        if path.is_file()
    ]
    _require_bucket(target.client("s3"), urlsplit(uri).netloc, target)
    absent = [name for name in channels if name not in {file.channel for file in files}]
    empty = [name for name in absent if not _has_files(target, f"{uri}/{name}/")]
    if not files or not all(channels[name].optional for name in empty):
        raise DatasetError(
            f"{folder} has no files in {' and '.join(f'{name}/' for name in empty or absent)}"
        )
    sources = {file: folder / file.channel / file.name for file in files}
    count = _upload(target, sources, uri, report)
    for name in empty:
        report(Note(f"no files are at {uri}/{name}/ yet; `--from` a folder with {name}/ has some"))
    for name in (each for each in channels if each not in absent):
        mine = {file.name for file in files if file.channel == name}
        if others := _names_at(target, f"{uri}/{name}/") - mine:
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            report(
                Note(
                    f"the job will also read {min(others)}{more}, which was at {uri}/{name}/"
                    " before: delete what it should not read, or name another `data.dataset`"
                )
            )
    return count


def _names_at(target: Target, uri: str) -> set[str]:
    """Return the names of the objects below a prefix, relative to it."""
    place = urlsplit(uri)
    prefix = place.path.lstrip("/")
    pages = target.client("s3").get_paginator("list_objects_v2")
    return {
        each["Key"].removeprefix(prefix)
        for page in pages.paginate(Bucket=place.netloc, Prefix=prefix)
        for each in page.get("Contents", ())
    }


def _has_files(target: Target, uri: str) -> bool:
    place = urlsplit(uri)
    request = {"Bucket": place.netloc, "Prefix": place.path.lstrip("/"), "MaxKeys": 1}
    try:
        return bool(target.client("s3").list_objects_v2(**request).get("KeyCount"))
    except ClientError as error:
        if error_code(error) in _NOT_FOUND:
            return False
        raise


def _prepare(script: Path, folder: Path, channels: Mapping[str, Channel]) -> None:
    """Run the script as its own user would; raise DatasetError with its last line if it fails."""
    command = [sys.executable, script.name, "--out", str(folder)]
    try:
        finished = subprocess.run(
            command,
            cwd=script.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PREPARE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise DatasetError(f"{script} did not end within {_PREPARE_S} s") from error
    if finished.returncode:
        lines = finished.stderr.strip().splitlines() or ["it said nothing"]
        raise DatasetError(f"{script} failed: {lines[-1]}")
    needed = [name for name, channel in channels.items() if not channel.optional]
    empty = [name for name in needed if not any(p.is_file() for p in (folder / name).rglob("*"))]
    if empty:
        names = " and ".join(f"{each}/" for each in empty)
        raise DatasetError(f"{script} ended well, but wrote no files into {names} of its --out")


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _require_bucket(s3: Any, bucket: str, target: Target) -> None:
    try:
        s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error_code(error) in _NOT_FOUND:
            raise NotFoundError(
                f"there is no bucket {bucket} in {target.description}; `shoal deploy` makes it"
            ) from error
        raise


def _location(uri: str, file: DatasetFile) -> tuple[str, str]:
    parts = urlsplit(uri)
    return parts.netloc, f"{parts.path.strip('/')}/{file.channel}/{file.name}"


def _is_uploaded(s3: Any, location: tuple[str, str], file: DatasetFile) -> bool:
    bucket, key = location
    try:
        head = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error_code(error) in _NOT_FOUND:
            return False
        raise
    return bool(head["Metadata"].get("md5") == file.md5)


def _progress(total_bytes: int, report: Report) -> Callable[[str], Callable[[int], None]]:
    done_bytes, lock = 0, threading.Lock()

    def for_file(name: str) -> Callable[[int], None]:
        def sent(count: int) -> None:  # called by the transfer's own threads
            nonlocal done_bytes
            with lock:
                done_bytes += count
                report(Transferred(name, done_bytes, total_bytes))

        return sent

    return for_file
