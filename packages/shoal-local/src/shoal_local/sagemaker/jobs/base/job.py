"""One job: its document in the store, the events of its changes, and the orders that it gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.jobs.base.wait import Orders
from shoal_local.sagemaker.resources import KINDS, Kind
from shoal_local.sagemaker.shapes import Document, fitting

TRAINING, PROCESSING = KINDS["training-job"], KINDS["processing-job"]
TRANSFORM, TUNING = KINDS["transform-job"], KINDS["hyper-parameter-tuning-job"]
END_STATUSES = frozenset({"Completed", "Failed", "Stopped"})


class JobFailedError(Exception):
    """A job that ends as Failed; `str()` is its FailureReason."""


class JobStoppedError(Exception):
    """A Stop operation came before the container ran."""


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
        self.core.emit(self.kind.event, event_detail(document), document[self.kind.arn_key])

    def check_capacity(self) -> None:
        """Raise JobFailedError if a test wants this job to have no capacity."""
        faults = self.core.context.faults
        if rule := faults.take("job", f"Create{self.kind.noun}", self.name):
            faults.happened(rule, self.name)
            raise JobFailedError(rule.message)

    def check_not_stopped(self) -> None:
        """Raise JobStoppedError if the job is to stop.

        A stop may come before the job's thread was registered; then only the document has it.
        """
        if self.orders.stop.is_set() or self.document()[self.kind.status_key] == "Stopping":
            self.orders.stop.set()
            raise JobStoppedError


def failure_reason(text: str) -> str:
    """Return at most the characters that the API allows, and keep the exit code at the end."""
    match = re.search(r", exit code: -?\d+$", text)
    end = match.start() if match else len(text)
    return fitting("DescribeTrainingJobResponse", "FailureReason", text[:end], text[end:])
