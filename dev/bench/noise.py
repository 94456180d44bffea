"""How busy the machine is with other work: a calibration kernel, other processes' CPU time, the
load average.

A measurement counts only if the kernel before and after it ran as fast as usual, and nobody else
computed meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KERNEL_BYTES = 24 * 1024 * 1024
KERNEL_TRIES = 5
"""The best of so many is taken: one interrupt slows one try, a shared machine slows all."""
CALIBRATIONS = 15
"""Number of accepted readings whose median is the usual time of a kernel; each takes some
100 ms.
"""
MAX_CHANGE = 1.10
"""A kernel that takes a tenth longer or shorter than usual means that cores, caches or clocks have
changed.

Being slower than the fastest kernel ever is no reason to reject a run: neighbours that always
compute slow every contender alike, and a round's ratios do not see them. They do see a sudden
change within a round.
"""
MAX_FOREIGN_SHARE = 0.05
"""CPU time of other processes, as a share of all cores' time."""
POLL_S = 2.0
QUIET_TIMEOUT_S = 90.0


class TooNoisyError(Exception):
    """The machine was too busy to measure; the text says with what."""


@dataclass(frozen=True)
class Reading:
    """The state of the machine at one moment between two runs."""

    kernel_s: float
    busy_s: float
    """CPU seconds of all processes since the start of the machine."""
    own_s: float
    """The part of `busy_s` that this process and its descendants used."""
    at_s: float
    load: float
    """The load average of the last minute, which includes our own runs."""


@dataclass(frozen=True)
class Noise:
    """What disturbed one run: 1.0 and 0.0 on a quiet machine."""

    kernel_ratio: float
    foreign_share: float

    @property
    def change(self) -> float:
        """Return the distance of the kernel from usual, in either direction, as a factor
        from 1 on.
        """
        return max(self.kernel_ratio, 1 / self.kernel_ratio)

    @property
    def is_quiet(self) -> bool:
        """Return whether the run counts."""
        return self.change <= MAX_CHANGE and self.foreign_share <= MAX_FOREIGN_SHARE

    def __str__(self) -> str:
        kernel = f"the calibration kernel took {self.kernel_ratio:.2f} times as long as usual"
        return f"{kernel}, other processes used {self.foreign_share:.0%} of the cores"


class Gauge:
    """Reads the noise; one per benchmark, because it remembers how long kernels took."""

    def __init__(
        self, own_processes: frozenset[int] = frozenset(), unseen_share: float = 0.0
    ) -> None:
        """`own_processes` are ours without being descendants, such as a daemon that we started.

        `unseen_share` is our share of the cores' time that looks foreign, because its processes end
        where nobody waits for them.
        """
        self._own_processes = own_processes
        self._unseen_share = unseen_share
        self._was_quiet = False
        self._kernels: deque[float] = deque(maxlen=CALIBRATIONS)
        self.calibrate()

    def calibrate(self) -> None:
        """Read again what is usual."""
        self._kernels.extend(best_kernel_s() for _ in range(CALIBRATIONS))

    def accept(self, *readings: Reading) -> None:
        """Count these readings, around a run that counts, as usual.

        A disturbed run's readings would let its disturbance pass when it is repeated.
        """
        self._kernels.extend(reading.kernel_s for reading in readings)

    def read(self) -> Reading:
        """Return the current state; takes as long as the kernels, some 100 ms.

        Their own time is not in `busy_s` of the run after them.
        """
        return Reading(
            best_kernel_s(),
            busy_s(),
            own_s(self._own_processes),
            time.monotonic(),
            os.getloadavg()[0],
        )

    def between(self, before: Reading, after: Reading) -> Noise:
        """Return what disturbed the run between two readings."""
        foreign_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
        available_s = (after.at_s - before.at_s) * (os.cpu_count() or 1)
        usual = self.usual_kernel_s
        share = max(0.0, foreign_s / available_s - self._unseen_share)
        noises = (Noise(reading.kernel_s / usual, share) for reading in (before, after))
        return max(noises, key=lambda noise: noise.change)

    @property
    def usual_kernel_s(self) -> float:
        """Return the median of the last accepted readings."""
        return statistics.median(self._kernels)

    def wait_until_quiet(self) -> None:
        """Wait until nobody else computes and, the first time, the load average is below half of
        the cores.

        Later the load average includes our own runs, which it takes a minute to forget. Raises
        TooNoisyError.
        """
        deadline = time.monotonic() + QUIET_TIMEOUT_S
        before = self.read()
        while time.monotonic() < deadline:
            time.sleep(POLL_S)  # what is measured is this interval
            after = self.read()
            noise = self.between(before, after)
            if noise.is_quiet and (self._was_quiet or after.load < (os.cpu_count() or 1) / 2):
                self._was_quiet = True
                return
            if noise.change > MAX_CHANGE:  # nothing has to be compared with what came before
                self.calibrate()
            before = after
        raise TooNoisyError(
            f"this machine does not become quiet: {noise}, the load average is {after.load:.1f}"
        )


def best_kernel_s() -> float:
    """Return the time of the fastest of a few kernels."""
    return min(kernel_s() for _ in range(KERNEL_TRIES))


def kernel_s() -> float:
    """Return the seconds of a fixed piece of work, on the slowest of our cores, each with its own
    thread.
    """
    block = bytes(KERNEL_BYTES)
    times: list[float] = []

    def work(core: int) -> None:
        with pinned(frozenset({core})):
            began_at = time.perf_counter()
            hashlib.sha256(block)  # releases the interpreter's lock
            times.append(time.perf_counter() - began_at)

    threads = [threading.Thread(target=work, args=(core,)) for core in cores()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(times)


def cores() -> list[int]:
    """Return the cores that this process may run on."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


@contextmanager
def pinned(to: frozenset[int]) -> Iterator[None]:
    """Keep the calling thread, and processes that it starts, on these cores.

    Does nothing where the system cannot.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    previous = os.sched_getaffinity(0)
    os.sched_setaffinity(0, to)
    try:
        yield
    finally:
        os.sched_setaffinity(0, previous)


def busy_s() -> float:
    """Return the CPU seconds of all processes since the machine started.

    0 without /proc: then only the kernel tells.
    """
    path = Path("/proc/stat")
    if not path.exists():
        return 0.0
    user, nice, system, _idle, _wait, interrupts, soft, steal = map(
        int, path.read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK")


def own_s(own_processes: frozenset[int]) -> float:
    """Return the CPU seconds of this process and its descendants, including those that were waited
    for.
    """
    table = _processes()
    ours = {os.getpid(), *own_processes}
    is_growing = True
    while is_growing:
        children = {pid for pid, (parent, _ticks) in table.items() if parent in ours} - ours
        is_growing = bool(children)
        ours |= children
    return sum(table[pid][1] for pid in ours if pid in table) / os.sysconf("SC_CLK_TCK")


def _processes() -> Mapping[int, tuple[int, int]]:
    """Return parent and CPU ticks (its own and those of ended children) of every process."""
    table = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        table[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    return table
