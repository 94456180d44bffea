"""Every SageMaker resource as one document, in memory under a lock, and lists of them.

A document is the answer of the Describe operation, with instants as epoch seconds. Keys that start
with `_` are the emulator's own. A list's filter that is not its kind's is refused by name.
"""

import copy
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Reversible, Sequence
from dataclasses import dataclass
from itertools import islice

from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.shapes import Document, only_members

_LOOK_EVERY_S = 0.2


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
        """Return a copy of `page` of all documents, oldest first; it must not change them."""
        with self._lock:
            return copy.deepcopy(page(self._documents.get(kind, {}).values()))

    def select(self, kind: str, condition: Callable[[Document], bool]) -> list[Document]:
        """Return copies of the documents that satisfy `condition`, which must not change them."""
        with self._lock:
            return copy.deepcopy(
                [each for each in self._documents.get(kind, {}).values() if condition(each)]
            )

    def change(self, kind: str, name: str, edit: Callable[[Document], None]) -> Document:
        """Apply `edit` to a document in one step, or nothing if it raises."""
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
        pending: Callable[[Document], bool],
        is_over: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Return True once a document is not `pending` any more, or there is none; False if
        `is_over` comes first, which is looked at all the time.
        """
        with self._changed:
            while (document := self._documents.get(kind, {}).get(name.lower())) is not None:
                if not pending(document):
                    break
                if is_over():
                    return False
                self._changed.wait(_LOOK_EVERY_S)
            return True

    def _put(self, kind: str, name: str, document: Document) -> None:
        self._documents.setdefault(kind, {})[name.lower()] = document
        self._changed.notify_all()


DEFAULT_PAGE = 10
"""Entries of a page without MaxResults."""

_BOUNDS: Mapping[str, tuple[str, int]] = {
    "CreationTimeAfter": ("CreationTime", 1),
    "CreationTimeBefore": ("CreationTime", -1),
    "CreatedAfter": ("CreationTime", 1),
    "CreatedBefore": ("CreationTime", -1),
    "LastModifiedTimeAfter": ("LastModifiedTime", 1),
    "LastModifiedTimeBefore": ("LastModifiedTime", -1),
}
"""The instant that a filter compares, and whether it must be later (1) or earlier (-1)."""
_SHARED = {
    *("NameContains", "StatusEquals", "SortBy", "SortOrder", "NextToken", "MaxResults"),
    *_BOUNDS,
}


@dataclass(frozen=True)
class Listing:
    """How one kind is listed: response key, summary shape, and the keys for name and status.

    `default_order` is what the API reference says of the operation's SortOrder. Where it says
    nothing (pipelines, executions, steps), the newest are first.
    """

    answer: str
    summary: str
    name: str
    status: str = ""
    default_order: str = "Descending"
    extra_filters: Sequence[str] = ()

    def page(
        self,
        documents: Reversible[Document],
        request: Document,
        entry: Callable[[Document], Document | None] = lambda document: document,
    ) -> Document:
        """Return the response for `request`, of documents in the order of their creation.

        `entry` makes the entry of a document, None for one that is not listed.
        """
        unknown = set(request) - _SHARED - {*self.extra_filters}
        if unknown:
            raise not_emulated(f"the list filter {sorted(unknown)[0]}")
        is_descending = request.get("SortOrder", self.default_order) == "Descending"
        by = str(request.get("SortBy", "CreationTime"))
        by_creation = by == "CreationTime"  # then only the page is looked at
        ordered = reversed(documents) if by_creation and is_descending else iter(documents)
        entries = (each for each in map(entry, ordered) if each is not None)
        matches: Iterable[Document] = (each for each in entries if self._matches(each, request))
        if not by_creation:
            field = {"Name": self.name, "Status": self.status}.get(by, by)
            matches = sorted(matches, key=lambda each: each.get(field, ""), reverse=is_descending)
        token = request.get("NextToken", "0")
        if not re.fullmatch("[0-9]{1,9}", token):
            raise invalid("Invalid NextToken")
        start = int(token)
        size = request.get("MaxResults", DEFAULT_PAGE)
        shown = list(islice(matches, start, start + size + 1))
        page: Document = {
            self.answer: [only_members(self.summary, document) for document in shown[:size]]
        }
        return page | ({"NextToken": str(start + size)} if len(shown) > size else {})

    def _matches(self, document: Document, request: Document) -> bool:
        if request.get("NameContains", "").lower() not in str(document[self.name]).lower():
            return False
        if "StatusEquals" in request and document[self.status] != request["StatusEquals"]:
            return False
        return all(
            (document[key] - _epoch(request[name])) * direction >= 0
            for name, (key, direction) in _BOUNDS.items()
            if name in request
        )


def _epoch(instant: float) -> float:
    try:
        return float(instant)
    except OverflowError:
        raise invalid(f"Invalid timestamp: {instant}") from None
