"""Ranks that meet through MPI and say where they are; with --kill-rank N that rank kills itself."""

from __future__ import annotations

import argparse
import os
import signal
import socket
from pathlib import Path

from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("--kill-rank", type=int, default=-1)
options, _ = parser.parse_known_args()
world = MPI.COMM_WORLD
if world.rank == options.kill_rank:
    os.kill(os.getpid(), signal.SIGKILL)
hosts = world.gather((socket.gethostname(), socket.gethostbyname(socket.gethostname())))
if hosts is not None:
    print(f"hosts={hosts}", flush=True)
    Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text(
        " ".join(f"{name}={address}" for name, address in hosts)
    )
