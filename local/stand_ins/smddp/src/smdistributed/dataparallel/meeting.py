"""Waiting for the other ranks ahead of a collective: MPI waits by spinning, and keeps from its
core whatever else would run there.
"""

from __future__ import annotations

import time
from typing import Any

SPIN_S = 0.0002
NAP_S = 0.00005


def meet(communicator: Any) -> None:
    """Return when every rank of mpi4py's communicator is here; asleep, if that takes long.

    What may run meanwhile on a core that is shared: TensorFlow's threads, which prepare the next
    batch; on a machine with more to do than cores the very rank that is waited for. On two quiet
    cores no difference in images/s is to be seen.
    """
    arrived = communicator.Ibarrier()
    patience = time.perf_counter() + SPIN_S
    while not arrived.Test():
        if time.perf_counter() > patience:
            time.sleep(NAP_S)
