"""One job: its document, events and orders, its thread, and why its containers ended; and the jobs
of one kind.
"""

import re
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from shoal_local.errors import AwsError
from shoal_local.processes import in_thread
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import Pod, PodError
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.jobs.base.containers import BuildStoppedError, RuntimeBuildError
from shoal_local.sagemaker.jobs.base.files import JobPaths
from shoal_local.sagemaker.jobs.base.storage import DataError
from shoal_local.sagemaker.resources import KINDS, Kind, Resources
from shoal_local.sagemaker.shapes import Document, fitting

TRAINING, PROCESSING = KINDS["training-job"], KINDS["processing-job"]
TRANSFORM, TUNING = KINDS["transform-job"], KINDS["hyper-parameter-tuning-job"]
RUNNING = frozenset({"InProgress", "Stopping"})


class JobFailedError(Exception):
    """A job that ends as Failed; `str()` is its FailureReason."""


class JobStoppedError(Exception):
    """A job that ends as Stopped; `str()` is its FailureReason, if there is one."""


@dataclass(frozen=True)
class Job:
    """One job: its document in the store, and the orders that it may get: `stop` (SIGTERM, then the
    grace) and `abandon` (SIGKILL at once, because the emulator stops).
    """

    core: Core
    kind: Kind
    name: str
    stop: threading.Event = field(default_factory=threading.Event)
    abandon: threading.Event = field(default_factory=threading.Event)

    def document(self) -> Document:
        return self.core.store.read(self.kind.store, self.name)

    def change(self, edit: Callable[[Document], None]) -> None:
        """Edit the document and publish an event."""

        def stamped(document: Document) -> None:
            edit(document)
            document["LastModifiedTime"] = names.now()

        document = self.core.store.change(self.kind.store, self.name, stamped)
        self.core.emit(self.kind.event, event_detail(document), document[self.kind.arn_key])

    def check_capacity(self) -> None:
        """Raise JobFailedError if a test wants this job to have no capacity."""
        operation = f"Create{self.kind.noun}"
        if rule := self.core.context.faults.hit("job", operation, self.name):
            raise JobFailedError(rule.message)

    def check_not_stopped(self) -> None:
        """Raise JobStoppedError if the job is to stop."""
        if self.stop.is_set():
            raise JobStoppedError


def failure_reason(text: str) -> str:
    """Return at most the characters that the API allows, and keep the exit code at the end."""
    match = re.search(r", exit code: -?\d+$", text)
    end = match.start() if match else len(text)
    return fitting("DescribeTrainingJobResponse", "FailureReason", text[:end], text[end:])


_POLL_S = 0.05


class EndReason(Enum):
    EXITED = "by itself"
    STOPPED = "stopped"
    TIMED_OUT = "out of time"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Ending:
    """Why a pod ended, and each host's exit code (None: killed with the pod)."""

    reason: EndReason
    exit_codes: dict[str, int | None]

    @property
    def exit_code(self) -> int:
        """0 if every host's is; else the first other one, or 137 if all known is the kill."""
        codes = self.exit_codes.values()
        otherwise = 0 if codes and all(code == 0 for code in codes) else 137
        return next(filter(None, codes), otherwise)


def supervise(
    pod: Pod, job: Job, deadline_s: float, is_interrupted: Callable[[], bool] = lambda: False
) -> Ending:
    """Close `pod` at its end: a stop, an interruption or `deadline_s` is SIGTERM, then SIGKILL."""
    deadline = time.monotonic() + deadline_s
    reason = EndReason.EXITED
    try:
        while not pod.wait(_POLL_S):
            if job.stop.is_set():
                reason = EndReason.STOPPED
            elif time.monotonic() >= deadline:
                reason = EndReason.TIMED_OUT
            elif is_interrupted():
                reason = EndReason.INTERRUPTED
            else:
                continue
            pod.terminate()
            deadline = time.monotonic() + job.core.settings.stop_grace_s
            while time.monotonic() < deadline and not job.abandon.is_set():
                if pod.wait(_POLL_S):
                    break
            break
    finally:
        pod.close()
    return Ending(reason, pod.exit_codes())


class JobRun:
    """The life of one job; `run()` returns when it has ended, whichever way."""

    def __init__(self, job: Job, folder: str) -> None:
        self._job, self._request = job, job.document()
        self._paths = JobPaths.of(job.core.context.state_dir, folder, job.name)

    def run(self) -> None:
        status, reason = "Completed", ""
        try:
            self._lifecycle()
        except Exception as error:  # noqa: BLE001 (a job must never stay InProgress)
            status, reason = self._ended_by(error)
        self._job.change(lambda document: self._end(document, status, reason))

    def _lifecycle(self) -> None:
        """Run the job to its end; raise an exception if it does not complete."""
        raise NotImplementedError

    def _ended_by(self, error: Exception) -> tuple[str, str]:
        """Return status and reason of a job that `error` ended; a bug's traceback is kept."""
        match error:
            case BuildStoppedError():
                return "Stopped", ""
            case JobStoppedError():
                return "Stopped", str(error)
            case JobFailedError():
                return "Failed", str(error)
            case DataError() | PodError() | RuntimeBuildError() | AwsError():
                return "Failed", f"ClientError: {error}"
        self._paths.folder.mkdir(parents=True, exist_ok=True)
        trace = "".join(traceback.format_exception(error))
        (self._paths.folder / "emulator-error.txt").write_text(trace)
        text = f"We encountered an internal error of the emulator: {error!r}"
        return "Failed", f"InternalServerError: {text}"

    def _end(self, document: Document, status: str, reason: str) -> None:
        """Write the job's end into its document."""
        kind = self._job.kind
        end_key = f"{kind.noun.removesuffix('Job')}EndTime"
        document.update({kind.status_key: status, end_key: names.now()})
        if reason:
            document["FailureReason"] = failure_reason(reason)


class Jobs(Resources):
    """The account's jobs of one kind."""

    verbs: ClassVar[tuple[str, ...]] = ("create", "describe", "list", "stop")

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._running: dict[str, Job] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def holding(self) -> list[Document]:
        """Return the jobs that have instances, or wait for them."""
        key = self.kind.status_key
        return self._core.store.select(self.kind.store, lambda job: job[key] in RUNNING)

    def _keep_job(self, request: Document, **members: Any) -> Job:
        """Add a job that has not begun."""
        job = Job(self._core, self.kind, request[self.kind.name_key])
        with self._lock:  # who sees its document can stop it
            self.keep(request, **{self.kind.status_key: "InProgress"}, **members)
            self._running[job.name] = job
        return job

    def _start(self, run: JobRun, job: Job) -> Document:
        """Let a job run in a thread of its own; return the answer of its Create operation."""

        def body() -> None:
            try:
                run.run()
            finally:
                with self._lock:
                    self._running.pop(job.name, None)

        with self._lock:
            alive = filter(threading.Thread.is_alive, self._threads)
            self._threads = [*alive, in_thread(job.name, body)]
        return {self.kind.arn_key: self._core.arn(self.kind.store, job.name)}

    def stop(self, request: Document) -> Document:
        document = self.find(request[self.kind.name_key])
        status = document[self.kind.status_key]
        if status not in RUNNING:
            words = self.kind.store.replace("-", " ")
            raise invalid(f"The request was rejected because the {words} is in status {status}.")
        self.order_stop(document["_name"])
        return {}

    def order_stop(self, name: str) -> None:
        """Stop a job, if it has not just ended; its thread does the rest."""
        with self._lock:
            job = self._running.get(name)

        def edit(document: Document) -> None:
            if document[self.kind.status_key] == "InProgress":
                document[self.kind.status_key] = "Stopping"
                if "SecondaryStatus" in document:
                    document["SecondaryStatus"] = "Stopping"
            if job:  # here: who reads "Stopping" may rely on it
                job.stop.set()

        Job(self._core, self.kind, name).change(edit)

    def close(self) -> None:
        """Kill the running jobs and wait for the end of each thread."""
        with self._lock:
            for job in self._running.values():
                job.abandon.set()
                job.stop.set()
        for thread in self._threads:
            thread.join(timeout=30)
