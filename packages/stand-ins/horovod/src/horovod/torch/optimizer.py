"""Horovod's optimizer: step() applies the gradients that all ranks computed together.

Horovod starts to reduce a gradient as soon as it is there. The stand-in reduces all of them in one
message in step(), and refuses what would race in Horovod.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from horovod.common import Average, ReduceOp, choose, size
from horovod.torch.collectives import Compression, reduce_all


class _Distributed(torch.optim.Optimizer):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """The methods that stand in front of those of an optimizer's own class.

    It counts how often backward() has filled each gradient since the last reduction.
    """

    def begin(
        self, parameters: list[Any], compression: Any, passes_per_step: int, op: ReduceOp
    ) -> None:
        """Count and reduce the gradients of these parameters from now on."""
        self._parameters, self._compression, self._op = parameters, compression, op
        self._passes_per_step, self._passes = passes_per_step, dict[Any, int]()
        self._synchronizes_in_step = True
        for parameter in parameters if size() > 1 else ():
            parameter.register_post_accumulate_grad_hook(self._count)

    def _count(self, parameter: Any) -> None:
        self._passes[parameter] = self._passes.get(parameter, 0) + 1
        if self._passes[parameter] > self._passes_per_step:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to"
                " step(). Increase backward_passes_per_step to accumulate gradients locally."
            )

    def synchronize(self) -> None:
        """Reduce now, for example to clip.

        Then step inside `with optimizer.skip_synchronize():`.
        """
        for parameter in self._parameters:
            if parameter.grad is None:  # another rank may have one
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in self._parameters]
        for gradient, reduced in zip(
            gradients, reduce_all(gradients, self._op, self._compression), strict=True
        ):
            gradient.copy_(reduced)
        self._passes.clear()

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Keep step() from reducing again in this block."""
        self._synchronizes_in_step = False
        try:
            yield
        finally:
            self._synchronizes_in_step = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if self._synchronizes_in_step:
            self.synchronize()
        return super().step(closure)

    def zero_grad(self) -> None:
        if self._passes:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step()"
                " or optimizer.synchronize(): Horovod prohibits it, because it is reducing these"
                " gradients"
            )
        super().zero_grad()


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
    op, own = choose(op), type(optimizer)
    kind = type(own.__name__, (_Distributed, own), {"__module__": own.__module__})
    distributed = kind(optimizer.param_groups)
    distributed.begin(parameters, compression, backward_passes_per_step, op)
    return distributed


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
