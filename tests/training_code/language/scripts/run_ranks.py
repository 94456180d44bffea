"""Runs a training script on several ranks: `run_ranks.py RANKS FILE RUN...`.

Each RUN is the JSON list of one job's arguments. The ranks are forks of a process that has imported
torch and joins no job itself, so that ten jobs pay for one import. What rank 0 prints goes to the
output; FILE gets [exit status, output] of each job.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import traceback
from pathlib import Path

CODE = Path(__file__).parents[4] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
import train  # noqa: E402


def main(arguments: list[str]) -> None:
    """Run one job after the other."""
    ranks, file, *runs = arguments
    results = [run(int(ranks), json.loads(each)) for each in runs]
    Path(file).write_text(json.dumps(results))


def run(ranks: int, arguments: list[str]) -> tuple[int, str]:
    """Return the highest exit status of the ranks, and what rank 0 printed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reading, writing = os.pipe()
    children = []
    for rank in range(ranks):
        child = os.fork()
        if not child:
            os.close(reading)
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks}
            place |= {"LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in place.items()})
            os.environ["MASTER_ADDR"] = "127.0.0.1"
            status = compute(arguments, writing if rank == 0 else os.open(os.devnull, os.O_WRONLY))
            os._exit(status)
        children.append(child)
    os.close(writing)
    with os.fdopen(reading) as stream:
        output = stream.read()
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return max(statuses), output


def compute(arguments: list[str], descriptor: int) -> int:
    """Be one rank, and return its exit status."""
    with os.fdopen(descriptor, "w") as stream, contextlib.redirect_stdout(stream):
        try:
            train.main(arguments, os.environ)
        except SystemExit as end:
            return int(end.code or 0)
        except Exception:  # noqa: BLE001 (a rank must not go on as its parent)
            print(traceback.format_exc(), flush=True)
            return 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
