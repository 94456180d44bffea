"""Counts what code does instead of how long it takes: the same on a busy machine and on an idle
one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_of(work: Callable[[], Any]) -> Counter[str]:
    """Calls of Python functions while `work` runs, by `file name:function`.

    Generators count each time they go on.
    """
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            code = frame.f_code
            counted[f"{code.co_filename.rpartition('/')[2]}:{code.co_name}"] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted
