"""Remembers SIGTERM until all processes agree on it.

SageMaker sends it 120 s before it kills a job that is stopped or interrupted.
"""

from __future__ import annotations

import signal

EXIT_CODE = 128 + signal.SIGTERM
"""Of a job that was told to stop: it has no model, so it must not look like one that is finished.
"""


class StopRequest:
    """Whether this process was told to stop."""

    def __init__(self) -> None:
        self.received = False
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, _signal: int, _frame: object) -> None:
        self.received = True
