"""Datasets: what a workload's script writes, or what is in a folder."""

import hashlib
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from boto3.s3.transfer import ProgressCallbackInvoker, TransferConfig, create_transfer_manager
from botocore.exceptions import ClientError

from shoal.aws.events import Note, Report, Transferred
from shoal.aws.execution import check_parameters
from shoal.aws.objects import NO_OBJECT, has_files, object_at, objects_at
from shoal.aws.target import Target
from shoal.errors import DatasetError, NotFoundError, error_code
from shoal.settings.loading.workload import load_workload, workload_file, workload_folder
from shoal.settings.names import Names
from shoal.settings.parsing.plain_files import problems_in
from shoal.settings.sections.channels import Channel, path_parameter, uri_parameter
from shoal.settings.sections.scoring import FOLDER as ROWS
from shoal.settings.sections.scoring import Scoring
from shoal.settings.settings import Environment
from shoal.verbs.inference import require_rows
from shoal.verbs.workspace import Session

_md5 = partial(hashlib.md5, usedforsecurity=False)
_PREPARE_S = 600
_AT_ONCE = 10
"""Requests to S3; botocore keeps so many connections."""
_LITTER = frozenset({"Thumbs.db", "ehthumbs.db", "desktop.ini", "__pycache__", "@eaDir"})


def upload_workload(
    target: Target, environment: Environment, root: Path, report: Report, folder: Path | None = None
) -> int:
    """Upload the dataset of an environment's workload, or what is in `folder`/CHANNEL/ instead.

    Returns the number of uploaded files. Raises DatasetError, also where there is neither a script
    nor a folder.
    """
    uri, channels = Names(environment).dataset_uri, _channels(environment)
    if not channels:
        report(Note("nothing is to upload: data.channels says where every channel lies"))
        return 0
    if folder:
        return upload_folder(target, folder, uri, channels, report, environment.scoring)
    with tempfile.TemporaryDirectory(prefix="shoal-data-") as prepared:
        prepare(environment, root, Path(prepared), report)
        return upload_folder(target, Path(prepared), uri, channels, report, environment.scoring)


def prepare(environment: Environment, root: Path, folder: Path, report: Report) -> None:
    """Let the workload's script write the dataset into a folder; raise DatasetError if it fails."""
    script, channels = require(environment, root), _channels(environment)
    if not channels:
        return
    report(Note(f"{script.relative_to(root)} writes the dataset, which may take a minute"))
    folder.mkdir(exist_ok=True)
    # as its own user would run it
    command = [sys.executable, script.name, "--out", str(folder)]
    try:
        finished = subprocess.run(
            command,
            cwd=script.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_PREPARE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise DatasetError(f"{script} did not end within {_PREPARE_S} s") from error
    if finished.returncode:
        lines = finished.stderr.strip().splitlines() or [f"exit code {finished.returncode}"]
        raise DatasetError(f"{script} failed: {lines[-1]}")
    needed = [name for name, channel in channels.items() if not channel.optional]
    if empty := [name for name in needed if not any(_files(folder / name))]:
        names = " and ".join(f"{each}/" for each in empty)
        raise DatasetError(f"{script} ended well, but wrote no files into {names} of its --out")


def _channels(environment: Environment) -> dict[str, Channel]:
    """Return the folders of the dataset, and that of the rows to score."""
    rows = {ROWS: Channel(optional=True)} if environment.scoring else {}
    return {**environment.data.in_dataset, **rows}


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
        places = _places(session, parameters)
        empty = {name: uri for name, uri in places.items() if not has_files(session.target, uri)}
    except ClientError as error:
        if error_code(error) != "AccessDenied":
            raise
        return f"whether the data is in S3 was not checked: {error.operation_name} is not allowed"
    if empty:
        where = " and ".join(f"{uri} (channel {name})" for name, uri in empty.items())
        raise DatasetError(f"there is nothing at {where}; {_how_to_fill(session, empty)}")
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
    target: Target,
    folder: Path,
    uri: str,
    channels: Mapping[str, Channel],
    report: Report,
    scoring: Scoring | None = None,
) -> int:
    """Upload the files below `folder`/CHANNEL/ that S3 lacks; returns their number.

    A channel that has files neither in the folder nor in S3 is an error, or a note if it is
    optional. With `scoring` the rows to score are looked at before anything is sent.
    """
    for name in channels:
        for link in problems_in("", folder / name, folder, is_read=bool):
            raise DatasetError(f"{folder}: {link.message}; {link.advice}")
    found = {name: sorted(_files(folder / name)) for name in channels}
    files = {name: [each for each in some if not _is_litter(each)] for name, some in found.items()}
    for name in (f"{name}/{each}" for name, some in files.items() for each in some):
        # S3's XML has no place for most of them, and what reads lists splits at others
        if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", name):
            raise DatasetError(f"{folder}: no safe name of an object: {name!a}; rename the file")
    if scoring:
        require_rows(folder, files[ROWS], scoring)
    litter = [f"{name}/{each}" for name in channels for each in found[name] if _is_litter(each)]
    if litter:
        more = f" and {len(litter) - 1} more" if litter[1:] else ""
        report(Note(f"left out, because it is hidden or a system's: {litter[0]}{more}"))
    folders = {path.name for path in folder.glob("[!.]*") if path.is_dir()}
    if left_out := sorted(folders - channels.keys()):
        which = f"{len(left_out)} folders were" if left_out[1:] else "1 folder was"
        why = f"left out, because no channel of the environment names it: {', '.join(left_out)}"
        report(Note(f"{which} {why}"))
    _require_bucket(target, object_at(uri)["Bucket"])
    absent = [name for name in channels if not files[name]]
    there = dict(objects_at(target, f"{uri}/"))
    empty = [name for name in absent if not any(key.startswith(f"{name}/") for key in there)]
    if len(absent) == len(channels) or not all(channels[name].optional for name in empty):
        raise DatasetError(
            f"{folder} has no files in {' and '.join(f'{name}/' for name in empty or absent)}"
        )
    paths = [f"{name}/{path}" for name, some in files.items() for path in some]
    count = _upload(target, folder, paths, uri, there, report)
    for name in empty:
        report(Note(f"no files are at {uri}/{name}/ yet; `--from` a folder with {name}/ has some"))
    for name in channels:
        before = {key.removeprefix(f"{name}/") for key in there if key.startswith(f"{name}/")}
        if files[name] and (others := before - {*files[name]}):
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            who = "what scores" if name == ROWS else "the job"
            place = f"{min(others)}{more}, which was at {uri}/{name}/ before"
            advice = "delete what it should not read (`aws s3 rm`), or name another `data.dataset`"
            report(Note(f"{who} will also read {place}: {advice}"))
    return count


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of all files below a folder, relative to it."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return (path.relative_to(folder).as_posix() for path in paths)


def _is_litter(path: str) -> bool:
    """Return whether a file is none of a dataset: hidden, or what systems and tools leave."""
    return any(part.startswith(".") or part in _LITTER for part in path.split("/"))


def _upload(
    target: Target,
    folder: Path,
    paths: list[str],
    uri: str,
    there: Mapping[str, Mapping[str, Any]],
    report: Report,
) -> int:
    """Upload the files at these paths of the folder that S3 lacks; return their number.

    `there` has the objects that S3 lists at `uri`.
    """
    s3, (bucket, prefix) = target.client("s3"), object_at(uri).values()

    def lacking(path: str) -> str | None:
        """Return the file's hash if S3 lacks it."""
        file = folder / path
        with file.open("rb") as content:
            md5 = hashlib.file_digest(content, _md5).hexdigest()
        is_there = path in there and _is_uploaded(
            s3, f"{uri}/{path}", there[path], file.stat().st_size, md5
        )
        return None if is_there else md5

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        hashes = {
            path: md5 for path, md5 in zip(paths, pool.map(lacking, paths), strict=True) if md5
        }
    total_bytes = sum((folder / path).stat().st_size for path in hashes)
    done_bytes, lock = 0, threading.Lock()

    def sent(name: str, count: int) -> None:  # called by the transfers' own threads
        nonlocal done_bytes
        with lock:
            done_bytes += count
            report(Transferred(name, done_bytes, total_bytes))

    with create_transfer_manager(s3, TransferConfig(max_concurrency=_AT_ONCE)) as transfers:
        uploads = [
            transfers.upload(
                str(folder / path),
                bucket,
                f"{prefix}/{path}",
                {"Metadata": {"md5": md5}},
                [ProgressCallbackInvoker(partial(sent, path.partition("/")[2]))],
            )
            for path, md5 in hashes.items()
        ]
        for each in uploads:
            each.result()
    summary = f"{len(hashes)} of {len(paths)} files uploaded to {uri} ({total_bytes:,} bytes)"
    remark = "" if len(hashes) == len(paths) else "; the others were there already"
    report(Note(f"{summary}{remark}"))
    return len(hashes)


def _is_uploaded(s3: Any, uri: str, listed: Mapping[str, Any], size: int, md5: str) -> bool:
    """Return whether a listed object has the content with this hash.

    Its ETag says so unless KMS encrypts it (S3 API reference, Object); then a request is sent, and
    only for an object of the same size.
    """
    if listed["ETag"].strip('"') == md5:
        return True
    if listed["Size"] != size:
        return False
    return bool(s3.head_object(**object_at(uri))["Metadata"].get("md5") == md5)


def _require_bucket(target: Target, bucket: str) -> None:
    try:
        target.client("s3").head_bucket(Bucket=bucket)
    except ClientError as error:
        if error_code(error) in NO_OBJECT:
            raise NotFoundError(
                f"there is no bucket {bucket} in {target.description}; `shoal deploy` makes it"
            ) from error
        raise
