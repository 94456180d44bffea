"""Ctrl-C, SIGTERM and SIGHUP as one KeyboardInterrupt.

The first one interrupts; later ones cannot disturb the clean-up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDS = "interrupted: ends what runs, takes all away; minutes here, up to half an hour on AWS"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once(note: str = "") -> Iterator[Callable[[], None]]:
    """Yield `shield`. The first signal prints the note, which says what ends now.

    After it is called, and after the first signal, further signals only print a note.
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
        if note:
            os.write(2, f"\n{note}\n".encode())
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield shield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
