"""Ctrl-C, SIGTERM and SIGHUP as one KeyboardInterrupt: the first one interrupts, the others cannot
disturb the cleaning up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once() -> Iterator[Callable[[], None]]:
    """Yields `shield`: after it is called, and after the first signal, further signals are only
    answered with a note.
    """
    shielded = False

    def shield() -> None:
        nonlocal shielded
        shielded = True

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal shielded
        if shielded:
            os.write(
                2, b"\ncleaning up; this cannot be interrupted\n"
            )  # print() is not safe in a handler
            return
        shielded = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield shield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
