"""Requests to an endpoint while something else happens: who answered, and what went wrong."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from shoal.aws.target import Target
from shoal.errors import AWS_ERRORS, ShoalError, refusal
from shoal.settings.sections.smoke_test import Request
from shoal.verbs import invoke

_PAUSE_S = 0.2
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Answer:
    """One request: when it was sent, and which model answered or what went wrong."""

    at: float
    model: str | None
    problem: str | None = None


@dataclass
class Traffic:
    """A thread that asks `endpoint` five times a second, while the context is open.

    Each question is sent once: an answer at the second try would hide what failed at the first.
    """

    target: Target
    endpoint: str
    requests: tuple[Request, ...]
    folder: Path
    """The workload's, in which the bodies of its requests lie."""
    answers: list[Answer] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Traffic:
        self._thread = threading.Thread(target=self._send, name="traffic", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_TIMEOUT_S)

    @property
    def by_model(self) -> Counter[str]:
        """Return the number of answers by the digest of the model."""
        return Counter(answer.model for answer in self.answers if answer.model)

    @property
    def problems(self) -> list[str]:
        return [answer.problem for answer in self.answers if answer.problem]

    def served_side_by_side(self, one: str, other: str) -> bool:
        """Return whether both answered, and `one` did after `other` had begun to."""
        first = min((each.at for each in self.answers if each.model == other), default=None)
        last = max((each.at for each in self.answers if each.model == one), default=None)
        return first is not None and last is not None and last > first

    def _send(self) -> None:
        number = 0
        while not self._stopping.wait(_PAUSE_S):
            self.answers.append(self._ask(self.requests[number % len(self.requests)]))
            number += 1

    def _ask(self, request: Request) -> Answer:
        at = time.monotonic()
        try:
            model = invoke.model_of(self.target, self.endpoint, request, self.folder, _TIMEOUT_S)
        except AWS_ERRORS as error:
            return Answer(at, None, refusal(error))
        except ShoalError as error:
            return Answer(at, None, str(error))
        return Answer(at, str(model.get("content_sha256")))
