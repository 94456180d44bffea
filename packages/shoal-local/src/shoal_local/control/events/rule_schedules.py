"""Event rules with a schedule: a thread fires each at its rate.

Only `rate(...)` is supported: PutRule refuses `cron(...)` by name. A rule fires for the first time
one period after it was put.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from moto.events.models import Rule

RATE = re.compile(r"^rate\((?P<number>[1-9][0-9]*) (?P<unit>minute|hour|day)(?P<plural>s?)\)$")
SECONDS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}
POLL_S = 0.5


def period_s(expression: str) -> float | None:
    """Return the seconds between two firings; None unless it is a rate.

    As on AWS, the unit is singular with 1 and plural otherwise.
    """
    match = RATE.match(expression)
    if not match or (match["number"] == "1") == bool(match["plural"]):
        return None
    return int(match["number"]) * SECONDS[match["unit"]]


@dataclass
class Schedules:
    """The scheduled rules.

    `speed` is how many of their seconds pass in a second of the clock.
    """

    rules: Callable[[], Iterable[Rule]]
    fire: Callable[[Rule], None]
    clock: Callable[[], float] = time.monotonic
    speed: float = 1.0
    _due_at: dict[str, float] = field(default_factory=dict)
    _closing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

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
        now, scheduled = self.clock() * self.speed, self._scheduled()
        self._due_at = {arn: due_at for arn, due_at in self._due_at.items() if arn in scheduled}
        for arn, (rule, period) in scheduled.items():
            due_at = self._due_at.setdefault(arn, now + period)
            if now >= due_at:
                self._due_at[arn] = now + period
                self.fire(rule)

    def _scheduled(self) -> dict[str, tuple[Rule, float]]:
        enabled = [
            rule for rule in self.rules() if rule.scheduled_expression and rule.state == "ENABLED"
        ]
        periods = [(rule, period_s(str(rule.scheduled_expression))) for rule in enabled]
        return {rule.arn: (rule, period) for rule, period in periods if period is not None}

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            self.look()
