"""Waits for the other ranks ahead of a collective.

MPI waits by spinning, which keeps other work from its core.
"""

from __future__ import annotations

import time
from typing import Any

SPIN_S = 0.0002
NAP_S = 0.00005


def meet(communicator: Any) -> None:
    """Return when every rank of mpi4py's communicator is here; sleep if that takes long.

    On a shared core this leaves time to TensorFlow's threads, which prepare the next batch. On a
    machine with more to do than cores it leaves time to the very rank that is waited for. On two
    quiet cores it makes no difference in images/s.
    """
    arrived = communicator.Ibarrier()
    patience = time.perf_counter() + SPIN_S
    while not arrived.Test():
        if time.perf_counter() > patience:
            time.sleep(NAP_S)
