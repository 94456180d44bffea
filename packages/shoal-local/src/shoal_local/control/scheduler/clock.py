"""The clock by which schedules and event rules are due."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

POLL_S = 0.25


class Clock:
    """A clock that runs `speed` times as fast as the machine's, with a thread that calls
    `look(now)` again and again until it is closed.
    """

    def __init__(self, look: Callable[[datetime], object], speed: float, name: str) -> None:
        self._look, self._speed = look, speed
        self._began_at, self._began_s = datetime.now(UTC), time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Look no more, and wait for the last look."""
        self._closing.set()
        self._thread.join()

    def now(self) -> datetime:
        return self._began_at + timedelta(seconds=(time.monotonic() - self._began_s) * self._speed)

    def of(self, timestamp: float) -> datetime:
        """Return an instant of the machine's clock on this one."""
        passed = datetime.fromtimestamp(timestamp, UTC) - self._began_at
        return self._began_at + passed * self._speed

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            self._look(self.now())
