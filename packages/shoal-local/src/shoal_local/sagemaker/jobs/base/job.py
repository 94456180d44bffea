"""The status of a job in its document and in events: what training, processing and transform jobs
share.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.jobs.base.wait import Orders
from shoal_local.sagemaker.shapes import Document, fitting


class JobFailedError(Exception):
    """A job that ends as Failed; `str()` is its FailureReason."""


class JobStoppedError(Exception):
    """A Stop operation came before the container ran."""


@dataclass(frozen=True)
class Kind:
    """How one kind of job is named: kind in the store, prefix of its API members, event and log
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
TRANSFORM = Kind(
    "transform-job",
    "TransformJob",
    "SageMaker Transform Job State Change",
    "/aws/sagemaker/TransformJobs",
)


TUNING = Kind(
    "tuning-job",
    "HyperParameterTuningJob",
    "SageMaker HyperParameter Tuning Job State Change",
    "/aws/sagemaker/TrainingJobs",
)


@dataclass(frozen=True)
class Job:
    """One job: its document in the store, and the orders that it may get."""

    core: Core
    kind: Kind
    name: str
    orders: Orders = field(default_factory=Orders)

    def document(self) -> Document:
        return self.core.store.read(self.kind.store, self.name)

    def change(self, edit: Callable[[Document], None]) -> None:
        """Edit the document and publish an event."""

        def stamped(document: Document) -> None:
            edit(document)
            document["LastModifiedTime"] = names.now()

        document = self.core.store.change(self.kind.store, self.name, stamped)
        self.core.emit(self.kind.event, event_detail(document), document[f"{self.kind.prefix}Arn"])

    def check_capacity(self) -> None:
        """Raise JobFailedError if a test wants this job to have no capacity."""
        faults = self.core.context.faults
        if rule := faults.take("job", f"Create{self.kind.prefix}", self.name):
            faults.happened(rule, self.name)
            raise JobFailedError(rule.message)

    def check_not_stopped(self) -> None:
        """Raise JobStoppedError if the job is to stop.

        A stop may come before the job's thread was registered; then only the document has it.
        """
        if self.orders.stop.is_set() or self.document()[f"{self.kind.prefix}Status"] == "Stopping":
            self.orders.stop.set()
            raise JobStoppedError


def failure_reason(text: str) -> str:
    """Return at most the characters that the API allows, and keep the exit code at the end."""
    match = re.search(r", exit code: -?\d+$", text)
    end = match.start() if match else len(text)
    return fitting("DescribeTrainingJobResponse", "FailureReason", text[:end], text[end:])
