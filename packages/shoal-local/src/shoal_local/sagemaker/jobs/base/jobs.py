"""The jobs of one kind: each runs in a thread of its own, is stopped, and ends with the service."""

from __future__ import annotations

import threading
import traceback
from typing import Any, ClassVar

from shoal_local.errors import AwsError
from shoal_local.processes import in_thread
from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import PodError
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.jobs.base.containers import BuildStoppedError, RuntimeBuildError
from shoal_local.sagemaker.jobs.base.job import (
    Job,
    JobFailedError,
    JobStoppedError,
    failure_reason,
)
from shoal_local.sagemaker.jobs.base.paths import JobPaths
from shoal_local.sagemaker.jobs.base.storage import DataError
from shoal_local.sagemaker.resources import Resources
from shoal_local.sagemaker.shapes import Document

_HOLDS = ("InProgress", "Stopping")


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
        self._lock = threading.Lock()

    def holding(self) -> list[Document]:
        """Return the jobs that have instances, or wait for them."""
        key = self.kind.status_key
        return self._core.store.select(self.kind.store, lambda job: job[key] in _HOLDS)

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
                job.ended.set()

        job.ended.clear()
        in_thread(job.name, body)
        return {self.kind.arn_key: self._core.arn(self.kind.store, job.name)}

    def stop(self, request: Document) -> Document:
        document = self.find(request[self.kind.name_key])
        status = document[self.kind.status_key]
        if status not in {"InProgress", "Stopping"}:
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
            jobs = list(self._running.values())
        for job in jobs:
            job.abandon.set()
            job.stop.set()
        for job in jobs:
            job.ended.wait(timeout=30)
