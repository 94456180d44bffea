"""Ranks that meet through MPI and say where they are."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from mpi4py import MPI

world = MPI.COMM_WORLD
hosts = world.gather((socket.gethostname(), socket.gethostbyname(socket.gethostname())))
if hosts is not None:
    print(f"hosts={hosts}", flush=True)
    Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text(
        " ".join(f"{name}={address}" for name, address in hosts)
    )
