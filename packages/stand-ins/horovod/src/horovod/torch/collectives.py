"""Collectives over tensors, all of them synchronous, how gradients travel, and what gives every
rank the parameters and the optimizer's state of one rank.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from shoal_stand_ins import transport
from shoal_stand_ins.transport import FP16Compressor, NoneCompressor

from horovod.common import JOB, ReduceOp, broadcast_object, choose


class Compression:
    """The values that `compression` takes."""

    none = NoneCompressor
    fp16 = FP16Compressor(torch.float16, "is_floating_point", torch.Tensor.to)


_HALVES = (torch.float16, torch.bfloat16)


def allreduce(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
) -> Any:
    """Return the reduction over all ranks as a new tensor, the average by default.

    `name` is Horovod's and changes nothing.
    """
    del name
    return reduce_all([tensor], choose(op, average), compression)[0]


def allreduce_(
    tensor: Any, average: bool | None = None, name: str | None = None, op: ReduceOp | None = None
) -> Any:
    """As allreduce, in place."""
    with torch.no_grad():
        return tensor.copy_(allreduce(tensor, average, name, op=op))


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
) -> list[Any]:
    """As allreduce, for several tensors in one message."""
    del name
    return reduce_all(tensors, choose(op, average), compression)


def allgather(tensor: Any, name: str | None = None) -> Any:
    """Return all ranks' tensors one after the other along the first dimension.

    They may differ in that dimension.
    """
    del name
    communicator = JOB.communicator
    if communicator is None:
        return tensor.clone()
    return torch.cat(
        [part.to(tensor.device) for part in communicator.allgather(tensor.detach().cpu())]
    )


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> Any:
    """Return rank `root_rank`'s tensor as a new one."""
    del name
    copy = tensor.detach().clone()
    broadcast_all([copy], root_rank)
    return copy


def broadcast_(tensor: Any, root_rank: int, name: str | None = None) -> Any:
    """As broadcast, in place."""
    del name
    broadcast_all([tensor], root_rank)
    return tensor


def barrier() -> None:
    """Wait until every rank is here."""
    communicator = JOB.communicator
    if communicator is not None:
        communicator.Barrier()


def reduce_all(tensors: Sequence[Any], op: ReduceOp, compression: Any) -> list[Any]:
    """Return new tensors, each reduced over all ranks, in one message per type."""
    communicator = JOB.communicator
    if communicator is None or not tensors:
        return [tensor.detach().clone() for tensor in tensors]
    sent = [compression.compress(tensor.detach()) for tensor in tensors]
    received = transport.allreduce(communicator, op, *(_as_array(tensor) for tensor, _ in sent))
    return [
        compression.decompress(torch.from_numpy(array).to(wire.dtype), context).to(tensor.device)
        for array, (wire, context), tensor in zip(received, sent, tensors, strict=True)
    ]


def broadcast_all(tensors: Iterable[Any], root_rank: int) -> None:
    """Copy rank `root_rank`'s tensors into every rank's, all of them in one message."""
    JOB.require_rank(root_rank)
    communicator, tensors = JOB.communicator, list(tensors)
    if communicator is None or not tensors:
        return
    arrays = [
        tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        for tensor in tensors
    ]
    with torch.no_grad():
        for tensor, array in zip(
            tensors, transport.broadcast(communicator, root_rank, *arrays), strict=True
        ):
            tensor.copy_(torch.from_numpy(array).view(tensor.dtype).reshape(tensor.shape))


def _as_array(tensor: Any) -> Any:
    return (tensor.float() if tensor.dtype in _HALVES else tensor).cpu().numpy()


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]], root_rank: int
) -> None:
    """Copy rank `root_rank`'s values into `model.state_dict()` or `model.named_parameters()`."""
    named = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    if not all(isinstance(pair, tuple) for pair in named):
        raise ValueError(f"invalid params of type: {type(params)}")
    broadcast_all([tensor for _, tensor in named if isinstance(tensor, torch.Tensor)], root_rank)


def broadcast_optimizer_state(optimizer: Any, root_rank: int) -> None:
    """Give every rank the state and settings of rank `root_rank`'s optimizer.

    These are learning rate, momentum and moments. As in Horovod, a rank that has no state first
    takes a step with gradients of 0, which its optimizer counts.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")  # noqa: TRY004 - Horovod raises ValueError
    if not optimizer.state:
        parameters = (each for group in optimizer.param_groups for each in group["params"])
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        # The other ranks may have a state, and then take no step.
        with getattr(optimizer, "skip_synchronize", nullcontext)():
            optimizer.step()
    optimizer.load_state_dict(broadcast_object(optimizer.state_dict(), root_rank))
