"""How much memory a process had at its peak, as Linux counts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Growth:
    """`kib` is by how much the resident memory grew at its peak over what it was at the beginning;
    known at the end.
    """

    kib: int = -1


@contextmanager
def growth(pid: int = 0) -> Iterator[Growth]:
    """What a process (this one by default) takes at most while this is open."""
    process = Path(f"/proc/{pid or os.getpid()}")
    (process / "clear_refs").write_text("5")  # the peak begins again (proc(5))
    before, found = _kib(process, "VmRSS"), Growth()
    yield found
    found.kib = _kib(process, "VmHWM") - before


def _kib(process: Path, what: str) -> int:
    return int((process / "status").read_text().partition(f"{what}:")[2].split()[0])
