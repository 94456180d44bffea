"""The statuses of a job, as documents and events: what training and processing jobs have in
common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.jobs.wait import Orders
from shoal_local.sagemaker.shapes import Document

MAX_FAILURE_REASON = 1024


class JobFailedError(Exception):
    """A job that ends as Failed; `str()` is its FailureReason."""


class JobStoppedError(Exception):
    """StopTrainingJob or StopProcessingJob came before the container ran."""


@dataclass(frozen=True)
class Kind:
    """How one kind of job is named in the API: kind in the store, prefix of its keys, event and log
    group.
    """

    store: str
    prefix: str
    event: str
    log_group: str


TRAINING = Kind(
    "training-job",
    "TrainingJob",
    "SageMaker Training Job State Change",
    "/aws/sagemaker/TrainingJobs",
)
PROCESSING = Kind(
    "processing-job",
    "ProcessingJob",
    "SageMaker Processing Job State Change",
    "/aws/sagemaker/ProcessingJobs",
)


@dataclass(frozen=True)
class Job:
    """One job: its document in the store, and the orders it may get."""

    core: Core
    kind: Kind
    name: str
    orders: Orders = field(default_factory=Orders)

    def document(self) -> Document:
        return self.core.store.read(self.kind.store, self.name)

    def change(self, edit: Callable[[Document], None]) -> None:
        """Edit the document and tell EventBridge."""

        def stamped(document: Document) -> None:
            edit(document)
            document["LastModifiedTime"] = names.now()

        document = self.core.store.change(self.kind.store, self.name, stamped)
        self.core.emit(self.kind.event, event_detail(document), document[f"{self.kind.prefix}Arn"])

    def check_capacity(self) -> None:
        """JobFailedError where a test asked for a job that the service cannot place."""
        faults = self.core.context.faults
        if rule := faults.take("job", f"Create{self.kind.prefix}", self.name):
            faults.happened(rule, self.name)
            raise JobFailedError(rule.message)

    def check_not_stopped(self) -> None:
        """A stop may have come before this job's thread was known; the document has it in any
        case.
        """
        if self.orders.stop.is_set() or self.document()[f"{self.kind.prefix}Status"] == "Stopping":
            self.orders.stop.set()
            raise JobStoppedError


def failure_reason(text: str) -> str:
    """At most the 1024 characters the API has; the end, which carries the exit code, is kept."""
    if len(text) <= MAX_FAILURE_REASON:
        return text
    head, separator, tail = text.rpartition(", exit code: ")
    ending = separator + tail if separator else ""
    return (head or text)[: MAX_FAILURE_REASON - len(ending)] + ending
