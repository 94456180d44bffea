"""Where everything of one job, or of one model server, lies on this machine, and the log of a job:
each line goes to a file, and within a second to CloudWatch Logs.
"""

import queue
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.processes import in_thread
from shoal_local.sagemaker.errors import not_emulated

_OPT_ML = Path("/opt/ml")


@dataclass(frozen=True)
class HostPaths:
    """The folders of one container, as `container.host` mounts them."""

    folder: Path

    @property
    def ml(self) -> Path:
        """What the container sees as /opt/ml."""
        return self.folder / "ml"

    @property
    def model(self) -> Path:
        return self.ml / "model"

    @property
    def output_data(self) -> Path:
        return self.ml / "output" / "data"

    def channel(self, name: str) -> Path:
        return self.ml / "input" / "data" / name

    def path_of(self, path_in_container: str) -> Path:
        """Return the path here of a path below /opt/ml in the container; no other is emulated."""
        path = Path(path_in_container)
        if ".." in path.parts or not path.is_relative_to(_OPT_ML):
            raise not_emulated(f"the container path {path_in_container} (only paths below /opt/ml)")
        return self.ml / path.relative_to(_OPT_ML)

    def make(self, host_names: Sequence[str], addresses: Mapping[str, str] | None = None) -> None:
        """Create the folders and the hosts file; hosts without an address share loopback."""
        mounted = (self.folder / name for name in ("tmp", "opt", "bin", "sbin"))
        for folder in (self.ml, *mounted):
            folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "environment").touch()
        by_name = addresses or {}
        local = ["localhost", *(name for name in host_names if name not in by_name)]
        lines = [f"127.0.0.1 {' '.join(local)}"]
        lines += [f"{address} {name}" for name, address in by_name.items()]
        (self.folder / "hosts").write_text("".join(f"{line}\n" for line in lines))


@dataclass(frozen=True)
class JobPaths:
    """The folder of one job; `kind` is training, processing or endpoint."""

    folder: Path

    @classmethod
    def of(cls, state_dir: Path, kind: str, name: str) -> "JobPaths":
        return cls(state_dir / "sagemaker-jobs" / f"{kind}-{name}")

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def upload(self) -> Path:
        """Archives on their way to S3."""
        return self.folder / "upload"

    def host(self, name: str) -> HostPaths:
        return HostPaths(self.folder / name)

    def make(self) -> None:
        """Create the job's folder; what an earlier job of this name left is deleted."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.upload.mkdir(parents=True)

    def remove(self, host_names: Sequence[str]) -> None:
        """Delete hosts and archives, which may be large; the log and exit codes stay."""
        for folder in (self.upload, *(self.host(name).folder for name in host_names)):
            shutil.rmtree(folder, ignore_errors=True)

    def renew(self, host_names: Sequence[str], addresses: Mapping[str, str] | None = None) -> None:
        """Create hosts with empty disks."""
        for name in host_names:
            shutil.rmtree(self.host(name).folder, ignore_errors=True)
            self.host(name).make(host_names, addresses)


_BATCH_BYTES = 900_000
_BATCH_EVENTS = 5_000
_PAUSE_S = 0.3
_OVERHEAD_BYTES = 26
_MAX_EVENT_BYTES = 250_000


class LogStreams:
    """Writes one log stream per host, `PREFIX/HOST-EPOCH` in the group; `HOST/data-log` goes behind
    it. `close()` flushes; what comes after it is not the job's.
    """

    def __init__(
        self, logs: Any, group: str, prefix: str, file: Path, now: Callable[[], float] = time.time
    ) -> None:
        self._logs, self._group, self._prefix, self._now = logs, group, prefix, now
        self._epoch, self._at_ms = int(now()), 0
        self._streams: set[str] = set()
        self._incomplete: set[str] = set()
        self._queue: queue.SimpleQueue[tuple[str, int, str] | None] = queue.SimpleQueue()
        self._file = file.open("a", encoding="utf-8", errors="replace", buffering=1)
        self._writing, self._closing = threading.Lock(), threading.Event()
        self._thread = in_thread(f"logs of {prefix}", self._run)

    def write(self, host: str, line: str) -> None:
        """Write one line of a host; may be called from any thread."""
        with self._writing:
            if not self._closing.is_set():
                self._file.write(f"{host} {line}\n")
                # a batch out of order is refused as a whole, and a clock may step back
                self._at_ms = max(self._at_ms, int(self._now() * 1000))
                self._queue.put((host, self._at_ms, line[:_MAX_EVENT_BYTES] or " "))

    def notice(self, line: str) -> None:
        """Write a line of ours, in a stream that is not a host's."""
        self.write("emulator", line)

    def evidence(self, host: str) -> str:
        """Return a host's last lines, each from its last carriage return, as terminals show it."""
        start = f"{host} "
        lines = [line.removeprefix(start) for line in self.tail(200) if line.startswith(start)]
        lines = [line.rpartition("\r")[2] for line in lines]
        return "; ".join(lines[-5:]) or "the container wrote nothing"

    def tail(self, lines: int) -> list[str]:
        """Return the last lines of the file."""
        text = Path(self._file.name).read_bytes().decode(errors="replace")
        return text.removesuffix("\n").split("\n")[-lines:]  # others are parts of a line

    def close(self) -> None:
        with self._writing:
            self._queue.put(None)
            self._closing.set()
        self._thread.join(timeout=30)
        with self._writing:
            self._file.close()

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            for host in dict.fromkeys(host for host, _, _ in batch):
                lines = [(at, line) for each, at, line in batch if each == host]
                self._put(host, [{"timestamp": at, "message": line} for at, line in lines])

    def _next_batch(self) -> tuple[list[tuple[str, int, str]], bool]:
        """Return the lines of one pause, as waking up for each would be slow; False at the end."""
        batch: list[tuple[str, int, str]] = []
        size, entry = 0, self._queue.get()
        if self._queue.empty():
            self._closing.wait(_PAUSE_S)
        while entry is not None:
            batch.append(entry)
            size += len(entry[2].encode()) + _OVERHEAD_BYTES
            if self._queue.empty() or len(batch) >= _BATCH_EVENTS or size >= _BATCH_BYTES:
                return batch, True
            entry = self._queue.get()
        return batch, False

    def _put(self, host: str, events: list[dict[str, Any]]) -> None:
        name, slash, rest = host.partition("/")
        stream = f"{self._prefix}/{name}-{self._epoch}{slash}{rest}"
        try:
            if stream not in self._streams:
                self._create(stream)
            self._logs.put_log_events(
                logGroupName=self._group, logStreamName=stream, logEvents=events
            )
        except (ClientError, BotoCoreError) as error:
            # a job does not fail because its log cannot be delivered; the file has it all
            with self._writing:
                if stream not in self._incomplete and not self._file.closed:
                    self._file.write(f"emulator {stream} has not all lines: {error}\n")
            self._incomplete.add(stream)

    def _create(self, stream: str) -> None:
        for create, names in (
            (self._logs.create_log_group, {"logGroupName": self._group}),
            (self._logs.create_log_stream, {"logGroupName": self._group, "logStreamName": stream}),
        ):
            try:
                create(**names)
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
                    raise
        self._streams.add(stream)
