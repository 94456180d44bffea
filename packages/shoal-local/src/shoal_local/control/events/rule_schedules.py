"""Event rules with a schedule: a thread fires each at its times.

A rule with a rate fires for the first time one period after it was put.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from moto.events.models import Rule

from shoal_local.control.scheduler.expressions import parse

POLL_S = 0.5


@dataclass
class Schedules:
    """The scheduled rules.

    `speed` is how many of their seconds pass in a second of the clock.
    """

    rules: Callable[[], Iterable[Rule]]
    fire: Callable[[Rule], None]
    clock: Callable[[], float] = time.monotonic
    speed: float = 1.0
    _due_at: dict[tuple[str, str], datetime | None] = field(default_factory=dict)
    """By the rule's ARN and its expression."""
    _closing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._began_at, self._began_s = datetime.now(UTC), self.clock()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True, name="schedules")
        self._thread.start()

    def close(self) -> None:
        """Fire no more rules."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> None:
        """Fire what is due, once however late it is, and forget rules that were deleted or
        disabled.
        """
        now = self._began_at + timedelta(seconds=(self.clock() - self._began_s) * self.speed)
        waiting, self._due_at = self._due_at, {}
        for rule in self.rules():
            expression = str(rule.scheduled_expression or "")
            if not expression or rule.state != "ENABLED":
                continue
            times, key = parse(expression, "UTC"), (rule.arn, expression)
            due_at = waiting[key] if key in waiting else times.next(now, now)
            is_due = due_at is not None and now >= due_at
            self._due_at[key] = times.next(now, now) if is_due else due_at
            if is_due:
                self.fire(rule)

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            self.look()
