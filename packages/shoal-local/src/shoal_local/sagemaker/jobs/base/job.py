"""One job: its document, the events of its changes, the orders that it gets, and the supervision of
its containers, which says why they ended.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from shoal_local.sagemaker import names
from shoal_local.sagemaker.container.launch import Pod
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.resources import KINDS, Kind
from shoal_local.sagemaker.shapes import Document, fitting

TRAINING, PROCESSING = KINDS["training-job"], KINDS["processing-job"]
TRANSFORM, TUNING = KINDS["transform-job"], KINDS["hyper-parameter-tuning-job"]
END_STATUSES = frozenset({"Completed", "Failed", "Stopped"})


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
    ended: threading.Event = field(default_factory=threading.Event)
    """Set, except while the thread of the job runs."""

    def __post_init__(self) -> None:
        self.ended.set()

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
        """0 only if every host's command exited with 0.

        Otherwise the first other code, or 137 if all that is known is the kill.
        """
        codes = self.exit_codes.values()
        otherwise = 0 if codes and all(code == 0 for code in codes) else 137
        return next(filter(None, codes), otherwise)


def supervise(
    pod: Pod, job: Job, deadline_s: float, is_interrupted: Callable[[], bool] = lambda: False
) -> Ending:
    """Wait for the end of the job's `pod`, and close it.

    After a stop, an interruption or `deadline_s` it gets SIGTERM, and after the grace SIGKILL.
    """
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
            while not (job.abandon.is_set() or pod.wait(_POLL_S)):
                if time.monotonic() >= deadline:
                    break
            break
    finally:
        pod.close()
    return Ending(reason, pod.exit_codes())
