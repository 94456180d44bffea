"""Train a digit classifier on MNIST with Horovod.

    mpirun -np 2 python -m mpi4py train_horovod.py ...        (SageMaker's toolkit)

Everything but the parallelism is train.py's. This file has what Horovod needs: its own ranks and
collectives instead of torch.distributed's, equal first weights by broadcast, and an optimizer that
averages the gradients instead of a wrapped network.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import common.quick_torch  # noqa: F401 (before the others)
import horovod.torch as hvd
import torch
from common import cpu, fabric
from common.ranks import Ranks, choose_device
from train import Run, finish, parse_options, resume, set_up, train


@dataclass(frozen=True)
class HorovodRanks(Ranks):
    """Ranks that mpirun started and Horovod joins; `backend` is what model.json says."""

    def all_reduce(self, tensor: torch.Tensor, group: Any = None) -> None:
        """Add a tensor over all ranks, in place."""
        tensor.copy_(hvd.allreduce(tensor, op=hvd.Sum))


@contextmanager
def joined(environ: Mapping[str, str]) -> Iterator[HorovodRanks]:
    """Be part of the job while the block runs: one rank per GPU, or per share of the cores."""
    hvd.init()
    device = choose_device(hvd.local_rank())
    if device.type == "cpu":
        cpu.share_cores(hvd.local_size(), environ)
    try:
        yield HorovodRanks(
            hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), "horovod", device
        )
    finally:
        hvd.shutdown()


def distribute(run: Run) -> None:
    """Let the optimizer's step() average the gradients.

    Horovod makes a new optimizer, without the state of the first: a checkpoint is read afterwards.
    """
    run.optimizer = hvd.DistributedOptimizer(
        run.optimizer, named_parameters=run.network.named_parameters()
    )


def broadcast(run: Run) -> None:
    """Start every rank from rank 0's weights and optimizer state."""
    hvd.broadcast_parameters(run.network.state_dict(), root_rank=0)
    if run.optimizer.state:  # Horovod would take a step to fill an empty one
        hvd.broadcast_optimizer_state(run.optimizer, root_rank=0)


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run one rank, from joining the job to leaving it."""
    options = parse_options(arguments, environ)
    fabric.listen(os.environ)
    with joined(environ) as ranks:
        proof = fabric.prove(ranks, environ)
        run = set_up(options, ranks)
        ranks.say(
            f"backend={ranks.backend} device={ranks.device} world_size={ranks.world_size}"
            f" global_batch={run.global_batch}"
        )
        ranks.say(proof)
        ranks.say(f"processes={ranks.world_size} ranks={ranks.world_size}")
        distribute(run)
        position = resume(run)
        broadcast(run)
        finish(run, train(run, position))


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
