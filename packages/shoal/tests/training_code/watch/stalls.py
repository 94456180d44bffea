"""A training with one thing wrong in it, or slow: `stalls.py CASE SECONDS`, in every rank."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

CASE, SECONDS = sys.argv[1], float(sys.argv[2])
AT, STEPS = 6, 12
RANK, LAST = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
HERE = Path(os.environ["TMPDIR"])


def show(step: int) -> None:
    if RANK == 0:
        print(f"step={step} train_loss=0.5", flush=True)


def reduce(size: int = 4) -> None:
    dist.all_reduce(torch.ones(size))


def burn(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(10_000))


def evaluate(seconds: float) -> None:
    burn(seconds)


def save_checkpoint(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        (HERE / "checkpoint").write_bytes(bytes(4_000_000))
        time.sleep(0.05)


def save(lock: threading.Lock) -> None:
    with lock, lock:
        pass


def write_until_written() -> None:
    while True:
        try:
            Path("/dev/full").write_bytes(b"weights")
        except OSError:
            time.sleep(0.2)


def batches() -> Iterator[int]:
    while True:
        time.sleep(0.01)
        if not HERE:
            yield 1


class Blocked(torch.utils.data.Dataset[int]):  # type: ignore[misc]
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        time.sleep(3600)
        return index


def read_slowly() -> None:
    os.mkfifo(HERE / "data")
    (HERE / "data").read_bytes()


def stop_host() -> None:
    """Freeze this host: its watch and its rank."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for process in (*map(int, children), os.getpid()):
        os.kill(process, signal.SIGSTOP)


def print_until_blocked() -> None:
    while True:
        print("x" * 4096, flush=True)


def stall() -> None:
    """What happens to the last rank, on the second host, in the middle of its training."""
    if CASE == "sleeps":
        time.sleep(3600)
    elif CASE == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif CASE == "skipped":
        dist.barrier()
    elif CASE == "loader":
        next(iter(torch.utils.data.DataLoader(Blocked(), num_workers=1)))
    elif CASE == "disk":
        write_until_written()
    elif CASE == "save":
        save(threading.Lock())
    elif CASE == "shapes":
        dist.all_gather([torch.ones(8) for _ in range(LAST + 1)], torch.ones(8))
    elif CASE == "file_system":
        read_slowly()
    elif CASE == "lost":
        stop_host()
    elif CASE == "interpreter":
        ctypes.PyDLL(None).pause()
    elif CASE == "stdout":
        print_until_blocked()
    elif CASE == "endless":
        next(batches())


def be_slow(step: int) -> None:
    """What takes its time on the first rank, or on all."""
    if CASE == "compile" and step == 0:
        burn(SECONDS)
    elif CASE == "evaluation" and step == AT and RANK == 0:
        evaluate(2.5 * SECONDS)
    elif CASE == "first_batch" and step == 0:
        time.sleep(SECONDS)
    elif CASE == "checkpoint" and step == AT and RANK == 0:
        save_checkpoint(2.5 * SECONDS)
    elif CASE == "slower":
        time.sleep(0.1 * 1.6**step)
    elif CASE == "sparse":
        time.sleep(SECONDS / 4)
    elif CASE == "warm_up" and step == 1:
        time.sleep(1.5 * SECONDS)
    elif CASE == "resume" and step == 0:
        for batch in range(10):
            print(f"passing over batch {batch}", flush=True)
            time.sleep(SECONDS / 6)


def main() -> None:
    dist.init_process_group("gloo")
    for step in range(STEPS):
        if CASE == "first_lost" and step == AT and RANK == 0:
            stop_host()
        if step == AT and RANK == LAST:
            stall()
        be_slow(step)
        time.sleep(0.1)
        reduce()
        if CASE != "sparse" or step % 6 == 5:
            show(step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
