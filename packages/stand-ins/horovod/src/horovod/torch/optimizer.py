"""Horovod's optimizer: step() applies the gradients that all ranks computed together.

Horovod starts to reduce a gradient as soon as it is there. The stand-in reduces all of them in one
message in step(), and refuses what would race in Horovod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..common import Average, ReduceOp, choose, size
from .collectives import reduce_all
from .compression import Compression


class _Gradients:
    """The gradients of an optimizer's parameters.

    It counts how often backward() has filled each since the last reduction.
    """

    def __init__(
        self, parameters: list[Any], compression: Any, passes_per_step: int, op: ReduceOp
    ) -> None:
        self.parameters = parameters
        self.synchronize_in_step = True
        self._compression = compression
        self._passes_per_step = passes_per_step
        self._op = op
        self._passes: dict[Any, int] = {}
        for parameter in parameters if size() > 1 else ():
            parameter.register_post_accumulate_grad_hook(self._count)

    @property
    def pending(self) -> bool:
        """True if backward() ran and nothing was reduced since."""
        return bool(self._passes)

    def reduce(self) -> None:
        """Replace every gradient by its reduction.

        A parameter without a gradient on this rank may have one on another.
        """
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in self.parameters]
        for gradient, reduced in zip(
            gradients, reduce_all(gradients, self._op, self._compression), strict=True
        ):
            gradient.copy_(reduced)
        self._passes.clear()

    def _count(self, parameter: Any) -> None:
        self._passes[parameter] = self._passes.get(parameter, 0) + 1
        if self._passes[parameter] > self._passes_per_step:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to"
                " step(). Increase backward_passes_per_step to accumulate gradients locally."
            )


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: Any,
    named_parameters: Iterable[tuple[str, Any]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
) -> Any:
    """Return a new optimizer, whose step() reduces gradients over all ranks first.

    As Horovod's, it has the parameters and settings of `optimizer`, and none of its state.
    It also gets synchronize() and skip_synchronize().
    """
    parameters = [
        parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad
    ]
    if named_parameters is not None:
        _check_names(list(named_parameters), parameters)
    gradients = _Gradients(parameters, compression, backward_passes_per_step, choose(op))
    own = type(optimizer)
    members = {"__module__": own.__module__, **_methods(own, gradients)}
    return type(own.__name__, (own,), members)(optimizer.param_groups)


def _check_names(named_parameters: list[tuple[str, Any]], parameters: list[Any]) -> None:
    names = [name for name, _ in named_parameters]
    if len(set(names)) < len(names):
        raise ValueError("Parameter names in named_parameters must be unique.")
    if {id(parameter) for parameter in parameters} - {
        id(parameter) for _, parameter in named_parameters
    }:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named."
        )


def _methods(own: Any, gradients: _Gradients) -> dict[str, Callable[..., Any]]:
    def synchronize(_self: Any) -> None:
        """Reduce now, for example to clip.

        Then step inside `with optimizer.skip_synchronize():`.
        """
        gradients.reduce()

    @contextmanager
    def skip_synchronize(_self: Any) -> Iterator[None]:
        """Keep step() from reducing again in this block."""
        gradients.synchronize_in_step = False
        try:
            yield
        finally:
            gradients.synchronize_in_step = True

    def step(self: Any, closure: Callable[[], Any] | None = None) -> Any:
        if gradients.synchronize_in_step:
            gradients.reduce()
        return own.step(self, closure)

    def zero_grad(self: Any) -> None:
        if gradients.pending:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step()"
                " or optimizer.synchronize(): Horovod prohibits it, because it is reducing these"
                " gradients"
            )
        own.zero_grad(self)

    return {
        "synchronize": synchronize,
        "skip_synchronize": skip_synchronize,
        "step": step,
        "zero_grad": zero_grad,
    }
