"""Try every collective on two ranks; write "ok" or the error's class and text for each."""

import functools
import warnings
from collections.abc import Callable

import report
import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401
import torch
import torch.distributed as dist

warnings.simplefilter("ignore", FutureWarning)
dist.init_process_group(backend="smddp")
rank, size = dist.get_rank(), dist.get_world_size()


def averaged() -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(700, 500))
    model(torch.ones(2, 700)).sum().backward()


def coalesced(
    collective: Callable[[torch.Tensor, torch.Tensor], object],
    output: int,
    length: int,
    expected: float,
) -> None:
    outputs = [torch.empty(output) for _ in range(3)]
    with dist.distributed_c10d._coalescing_manager():
        for tensor in outputs:
            collective(tensor, torch.ones(length))
    assert all(bool((tensor == expected).all()) for tensor in outputs)


def reduced(name: str, operation: dist.ReduceOp.RedOpType) -> None:
    """Reduce a list of numbers: whole ones, which bitwise operations need, but for a mean.

    gloo's mean of whole numbers fails, and again at the barrier after it.
    """
    dtype = torch.float32 if operation == dist.ReduceOp.AVG else torch.int32
    tensors = [torch.ones(4, dtype=dtype) for _ in range(2)]
    if name == "all_reduce, coalesced":
        dist.all_reduce_coalesced(tensors, operation)
    elif name == "reduce":
        dist.reduce(tensors[0], 0, operation)
    else:
        dist.all_reduce(tensors[0], operation, async_op=True).wait()


ATTEMPTS = {
    **{
        f"{name}({operation})": functools.partial(reduced, name, getattr(dist.ReduceOp, operation))
        for name in ("all_reduce", "all_reduce, coalesced", "reduce")
        for operation in ("SUM", "MIN", "MAX", "AVG", "PRODUCT", "BAND", "BOR", "BXOR")
    },
    "all_reduce": lambda: dist.all_reduce(torch.ones(4)),
    "broadcast": lambda: dist.broadcast(torch.ones(4), 0),
    "reduce": lambda: dist.reduce(torch.ones(4), 0),
    "all_gather": lambda: dist.all_gather([torch.ones(4) for _ in range(size)], torch.ones(4)),
    "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(
        torch.empty(4 * size), torch.ones(4)
    ),
    "all_gather_object": lambda: dist.all_gather_object([None] * size, {"rank": rank}),
    "barrier": dist.barrier,
    "DistributedDataParallel": averaged,
    "barrier(device_ids)": lambda: dist.barrier(device_ids=[0]),
    "new_group": lambda: dist.new_group([0, 1]),
    "new_group(backend=gloo)": lambda: dist.new_group(backend="gloo"),
    "new_subgroups": lambda: dist.new_subgroups(group_size=1),
    "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(
        torch.empty(4), torch.ones(4 * size)
    ),
    "all_gather_into_tensor, coalesced": lambda: coalesced(
        dist.all_gather_into_tensor, 4 * size, 4, 1.0
    ),
    "reduce_scatter_tensor, coalesced": lambda: coalesced(
        dist.reduce_scatter_tensor, 4, 4 * size, float(size)
    ),
    "all_to_all_single": lambda: dist.all_to_all_single(torch.empty(size), torch.ones(size)),
    "gather": lambda: dist.gather(torch.ones(1), [torch.ones(1)] * size if rank == 0 else None),
    "scatter": lambda: dist.scatter(torch.ones(1), [torch.ones(1)] * size if rank == 0 else None),
    "send": lambda: dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(torch.ones(1), 0),
}

answers = {"backend": dist.get_backend()}
for name, attempt in ATTEMPTS.items():
    answers[name] = report.error_of(attempt)
    dist.barrier()
report.write(rank, answers)
dist.destroy_process_group()
