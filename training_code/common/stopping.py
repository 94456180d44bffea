"""Remembers SIGTERM until all ranks agree on it, and write their checkpoint.

SageMaker sends it 120 s before it kills a job that is stopped or interrupted, torchrun 30 s.
"""

from __future__ import annotations

import signal

EXIT_CODE = 128 + signal.SIGTERM
"""Of a job that was told to stop: it has no model, so it must not look like one that is finished.
"""


class StopRequest:
    """Whether this process was told to stop. Make it in the main thread, before training."""

    def __init__(self) -> None:
        self.received = False
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, _signal: int, _frame: object) -> None:
        self.received = True
