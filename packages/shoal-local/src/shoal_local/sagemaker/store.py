"""Every SageMaker resource as one document, in memory under a lock.

A document is the answer of the Describe operation, with instants as epoch seconds. Keys that start
with `_` are the emulator's own.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Reversible

from shoal_local.sagemaker.shapes import Document


class Store:
    """Documents by kind ("training-job") and name, in order of creation. Reads return copies.

    Names differ by more than case, because the names in SageMaker's ARNs are lower-cased and its
    clients look resources up by them.
    """

    def __init__(self) -> None:
        self._documents: dict[str, dict[str, Document]] = {}
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    def create(
        self, kind: str, name: str, document: Document, conflict: Callable[[Document], Exception]
    ) -> None:
        """Add a document; raise `conflict(existing)` if the name is in use."""
        with self._lock:
            existing = self._documents.get(kind, {}).get(name.lower())
            if existing is not None:
                raise conflict(copy.deepcopy(existing))
            self._put(kind, name, copy.deepcopy(document))

    def get(self, kind: str, name: str) -> Document | None:
        with self._lock:
            return copy.deepcopy(self._documents.get(kind, {}).get(name.lower()))

    def read(self, kind: str, name: str) -> Document:
        """Return a document that must exist; raise KeyError if it does not."""
        with self._lock:
            return copy.deepcopy(self._documents[kind][name.lower()])

    def listed(self, kind: str, page: Callable[[Reversible[Document]], Document]) -> Document:
        """Return a copy of the page that `page` makes of all documents, in order of creation.

        `page` sees the documents themselves and must not change them.
        """
        with self._lock:
            return copy.deepcopy(page(self._documents.get(kind, {}).values()))

    def select(self, kind: str, condition: Callable[[Document], bool]) -> list[Document]:
        """Return copies of the documents that satisfy `condition`.

        `condition` sees each document itself and must not change it: only what it chooses is
        copied.
        """
        with self._lock:
            return copy.deepcopy(
                [each for each in self._documents.get(kind, {}).values() if condition(each)]
            )

    def change(self, kind: str, name: str, edit: Callable[[Document], None]) -> Document:
        """Apply `edit` to the document in one step; raise KeyError if it does not exist.

        An exception in `edit` changes nothing.
        """
        with self._lock:
            document = copy.deepcopy(self._documents[kind][name.lower()])
            edit(document)
            self._put(kind, name, document)
            return copy.deepcopy(document)

    def delete(self, kind: str, name: str) -> None:
        with self._lock:
            self._documents.get(kind, {}).pop(name.lower(), None)
            self._changed.notify_all()

    def wait(
        self,
        kind: str,
        name: str,
        done: Callable[[Document | None], bool],
        timeout_s: float | None = None,
    ) -> Document | None:
        """Return the document once `done(document)`; None stands for a document that does not
        exist.

        Raise TimeoutError after `timeout_s`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not done(document := self._documents.get(kind, {}).get(name.lower())):
                remaining_s = None if deadline is None else deadline - time.monotonic()
                if remaining_s is not None and remaining_s <= 0:
                    raise TimeoutError(f"{kind} {name} after {timeout_s} s")
                self._changed.wait(remaining_s)
            return copy.deepcopy(document)

    def _put(self, kind: str, name: str, document: Document) -> None:
        self._documents.setdefault(kind, {})[name.lower()] = document
        self._changed.notify_all()
