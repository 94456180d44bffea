"""Runs a training script on several ranks: `run_ranks.py FILE JOB...`.

A JOB is JSON: {"ranks", "hosts", "arguments", "signal", "max_file_bytes"}; `hosts` are the folders
of their checkpoints. The ranks are forks of a process that has imported torch and joins no job
itself, so that ten jobs pay for one import. FILE gets [exit statuses, what rank 0 printed] of each
job. The last rank's files have at most `max_file_bytes`. A signal {"number", "line", "after_s",
"rank"} goes to one rank, or to all, so long after rank 0 has printed so many lines with a loss.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[6]
KIT = ROOT / "packages" / "shoal-local" / "tests" / "kit"
sys.path[:0] = [str(ROOT / "training_code" / "language" / "pytorch"), str(KIT)]
import torch._dynamo  # noqa: E402, F401 (which each rank would import)
import train  # noqa: E402

from local_kit.commands import unused_ports  # noqa: E402


def main(arguments: list[str]) -> None:
    """Run one job after the other."""
    file, *jobs = arguments
    Path(file).write_text(json.dumps([run(**json.loads(job)) for job in jobs]))


def run(
    ranks: int,
    hosts: list[str],
    arguments: list[str],
    signal: dict[str, Any] | None,
    max_file_bytes: int,
) -> tuple[list[int], str]:
    """Return the exit statuses of the ranks, and what rank 0 printed."""
    port = next(unused_ports())
    reading, writing = os.pipe()
    children, ranks_per_host = [], ranks // len(hosts)
    for rank in range(ranks):
        child = os.fork()
        if not child:
            os.close(reading)
            host, local_rank = divmod(rank, ranks_per_host)
            place = {"RANK": rank, "LOCAL_RANK": local_rank, "WORLD_SIZE": ranks}
            place |= {"LOCAL_WORLD_SIZE": ranks_per_host, "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in place.items()})
            os.environ["MASTER_ADDR"] = "127.0.0.1"
            if rank == ranks - 1:
                resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
            descriptor = writing if rank == 0 else os.open(os.devnull, os.O_WRONLY)
            os._exit(compute([*arguments, "--checkpoint-dir", hosts[host]], descriptor))
        children.append(child)
    os.close(writing)
    output = read(reading, children, signal)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return statuses, output


def read(descriptor: int, children: list[int], signal: dict[str, Any] | None) -> str:
    """Return all that rank 0 prints; send the signal when its line is there."""
    lines, losses = [], 0
    with os.fdopen(descriptor) as stream:
        for line in stream:
            lines.append(line)
            losses += "train_loss=" in line
            if signal and losses == signal["line"]:
                time.sleep(signal["after_s"])
                rank = signal["rank"]
                for child in children if rank is None else [children[rank]]:
                    os.kill(child, signal["number"])
                signal = None
    return "".join(lines)


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
