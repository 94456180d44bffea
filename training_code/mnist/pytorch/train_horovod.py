"""Train a digit classifier on MNIST with Horovod.

    mpirun -np 2 python -m mpi4py train_horovod.py ...        (SageMaker's toolkit)

Everything but the parallelism is train.py's. This file has what Horovod needs: its own ranks and
collectives instead of torch.distributed's, equal first weights by broadcast, and an optimizer that
averages the gradients instead of a wrapped network.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import common.quick_torch  # noqa: F401 (before the others)
import horovod.torch as hvd
import torch
from common.ranks import Ranks, choose_device, share_cores
from train import finish, parse_options, resume, set_up, train


class HorovodRanks(Ranks):
    """Ranks that mpirun started and Horovod joined; `backend` is what model.json says."""

    def all_reduce(self, tensor: torch.Tensor, group: Any = None) -> None:
        """Add a tensor over all ranks, in place."""
        tensor.copy_(hvd.allreduce(tensor, op=hvd.Sum))


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run one rank, from joining the job to leaving it."""
    options = parse_options(arguments, environ)
    hvd.init()
    try:
        device = choose_device(hvd.local_rank())
        if device.type == "cpu":
            share_cores(hvd.local_size(), environ)
        place = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())
        ranks = HorovodRanks(*place, "horovod", device)
        run = set_up(options, ranks)
        # A new optimizer, without the state of the first: a checkpoint is read afterwards.
        named = run.network.named_parameters()
        run.optimizer = hvd.DistributedOptimizer(run.optimizer, named_parameters=named)
        done = resume(run)
        hvd.broadcast_parameters(run.network.state_dict(), root_rank=0)
        if run.optimizer.state:  # Horovod would take a step to fill an empty one
            hvd.broadcast_optimizer_state(run.optimizer, root_rank=0)
        finish(run, train(run, done))
    finally:
        hvd.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
