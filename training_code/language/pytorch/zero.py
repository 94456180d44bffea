"""DeepSpeed's ZeRO-3 as a way to spread a model, behind the same methods as `sharding.py`.

The package deepspeed is imported only where this way is chosen. On a CPU nothing of it is compiled
when a job starts: the optimizer is PyTorch's. Checkpoints are those of the other ways.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from common.ranks import Ranks
from lora import Lora
from model import Config, Transformer
from sharding import MAX_GRADIENT_NORM, Plan, Spread, moments_of, start
from torch import Tensor, nn
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import DeviceMesh
from torch.nn import functional

try:  # since PyTorch 2.5
    from torch.distributed.tensor import DTensor, Shard
except ImportError:
    from torch.distributed._tensor import DTensor, Shard

ADVICE = (
    "zero3 needs the package deepspeed, which is not installed here: name it in a requirements.txt"
    ' next to train.py, or use an image that has it (docs/bring-your-model.md, "What the image'
    ' lacks"); fsdp shards the same without it'
)
MOMENTS = ("exp_avg", "exp_avg_sq")


def is_installed() -> bool:
    """Return whether the package is there."""
    return importlib.util.find_spec("deepspeed") is not None


def spread_by_zero(
    config: Config,
    seed: int,
    plan: Plan,
    ranks: Ranks,
    base: Path | None = None,
    lora: Lora | None = None,
) -> Zero:
    """Make a model, of which no rank ever holds more than its part and one weight.

    It has the start's weights after `begin`. Raise ValueError for what this way does not do.
    """
    if ranks.backend == "smddp":
        raise ValueError(
            "--sharding zero3 does not go with smddp: DeepSpeed makes groups of ranks, and smddp"
            " has none; take fsdp"
        )
    deepspeed = _import_deepspeed(ranks)
    settings = _settings(config, plan)
    with deepspeed.zero.Init(config_dict_or_path=settings):
        model = Transformer(config)
    for layer in model.model.layers:
        layer.checkpointing = plan.checkpointing
    return Zero(model, model, plan, ranks.device, None, ranks, settings, seed, base)


def problem_of(plan: Plan, lora: Lora | None) -> str:
    """Return what zero3 does not go with, and what does; "" if there is nothing."""
    for is_chosen, problem in (
        (plan.precision == "float64", "--precision float64: DeepSpeed keeps weights in float32"),
        (plan.compiled, "--compile: DeepSpeed gathers weights within what would be compiled"),
        (lora is not None, "--lora-rank: DeepSpeed keeps no float32 of a base in bf16"),
    ):
        if is_chosen:
            return f"--sharding zero3 does not go with {problem}; take fsdp"
    return ""


def _import_deepspeed(ranks: Ranks) -> Any:
    """Return the package, which uses the group of ranks that is there."""
    warnings.filterwarnings("ignore", r"`torch\.distributed\.", FutureWarning)  # of what it calls
    deepspeed: Any = importlib.import_module("deepspeed")
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    os.environ.setdefault("LOCAL_RANK", str(ranks.local_rank))  # which it takes the device from
    # On a CPU it compiles an all-reduce of its own, for minutes, where this says that it can.
    deepspeed.ops.__compatible_ops__ = {}
    deepspeed.init_distributed(ranks.backend, auto_mpi_discovery=False, verbose=False)
    return deepspeed


def _settings(config: Config, plan: Plan) -> dict[str, Any]:
    """Return DeepSpeed's configuration (deepspeed.ai/docs/config-json).

    As with FSDP2, no weight stays whole, the next layer's are gathered while one is computed, and
    gradients are added in float32. train.py alone knows of batches.
    """
    with torch.device("meta"):
        model = Transformer(config)
    layer = _numbers(model.model.layers[0])
    outside = _numbers(model) - _numbers(model.model.layers)
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": MAX_GRADIENT_NORM,
        "timers": {"throughput": {"enabled": False}},  # it waits for the device twice a step
        "bf16": {"enabled": plan.precision == "bf16"},
        "communication_data_type": "fp32",
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {
            "stage": 3,
            "stage3_param_persistence_threshold": 0,
            "stage3_prefetch_bucket_size": layer,
            "stage3_max_live_parameters": outside + 2 * layer,
            "stage3_max_reuse_distance": 0,
            "reduce_bucket_size": layer,
        },
    }


def _numbers(module: nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


@dataclass
class Zero(Spread):
    """A model whose weights DeepSpeed keeps: `module` is its engine, after `begin`.

    Each rank keeps a piece of the numbers of each weight in a row, padded to a multiple of the
    ranks, in what is computed in, and the same in float32, with the optimizer's moments.
    """

    ranks: Ranks
    settings: dict[str, Any]
    seed: int
    base: Path | None

    def shape_of(self, weight: Any) -> torch.Size:
        """Return the shape of a whole weight."""
        return weight.ds_shape

    def begin(self, optimizer: torch.optim.Optimizer) -> Stateful:
        """Let DeepSpeed take over the optimizer, and set the weights to those of the start."""
        names = {weight: name for name, weight in self.model.named_parameters()}
        groups = [
            {**group, "params": [names[weight] for weight in group["params"]]}
            for group in optimizer.param_groups
        ]
        self.module, *_ = importlib.import_module("deepspeed").initialize(
            model=self.model,
            optimizer=optimizer,
            config=self.settings,
            dist_init_required=False,
        )
        weights = dict(self.model.named_parameters())
        shapes = {name: self.shape_of(weight) for name, weight in weights.items()}
        for name, whole in start(self.model.config, shapes, self.seed, self.base):
            if name in weights:
                self.keep(weights[name], whole)
        for numbers in self.module.optimizer.fp32_partitioned_groups_flat:
            # as Adam would in its first step, so that a checkpoint has a place for them before it
            moments = {each: torch.zeros_like(numbers) for each in MOMENTS}
            optimizer.state[numbers] = {"step": torch.zeros((), device=self.device), **moments}
        return ZeroState(self, optimizer, groups)

    @contextmanager
    def pass_of_step(self, *, last: bool) -> Iterator[None]:
        """Compute one pass of a step; gradients are averaged in each."""
        self.module.set_gradient_accumulation_boundary(last)
        yield

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of one pass."""
        self.module.backward(loss, scale_wrt_gas=False)

    def step(self, optimizer: torch.optim.Optimizer) -> Tensor:
        """Clip the gradients and change the weights. Return the norm that the gradients had.

        DeepSpeed skips a step whose gradients are not finite. From then on the norm is infinite, so
        that the run ends at its next line of metrics, as with the other ways.
        """
        self.module.step()
        norm = math.inf if self.module.skipped_steps else self.module.get_global_grad_norm()
        return torch.as_tensor(norm, device=self.device)

    def whole_weights(self) -> dict[str, Tensor]:
        """Return the weights on the CPU of rank 0, nothing on the others; all ranks call it."""
        whole = ((name, self.whole(weight)) for name, weight in self.model.named_parameters())
        return {name: value.cpu() for name, value in whole if self.ranks.is_first}

    def kept(self, optimizer: torch.optim.Optimizer) -> dict[str, Iterable[Any]]:
        """Return the tensors of weights, gradients and Adam's two moments."""
        weights: list[Any] = list(self.model.parameters())
        tensors = _utils()
        exact = [tensors.safe_get_local_fp32_param(each) for each in weights]
        return {
            "weights": [*(each.ds_tensor for each in weights), *exact],
            "gradients": [tensors.safe_get_local_grad(each) for each in weights],
            "optimizer": moments_of(optimizer),
        }

    def whole(self, weight: nn.Parameter, moment: str | None = None) -> Tensor:
        """Return a weight in float32, or one of its moments; all ranks call it."""
        if moment is None:
            return _utils().safe_get_full_fp32_param(weight)
        return _utils().safe_get_full_optimizer_state(weight, moment)

    def keep(self, weight: Any, whole: Tensor, moment: str | None = None) -> None:
        """Take over this rank's piece of a weight, or of one of its moments."""
        size = weight.ds_tensor.numel()
        padding = size * self.ranks.world_size - whole.numel()
        row = functional.pad(whole.detach().flatten(), (0, padding))
        piece = row.narrow(0, size * self.ranks.rank, size)
        if moment is None:
            _utils().safe_set_local_fp32_param(weight, piece)
            weight.ds_tensor.copy_(piece)  # in what is computed in
        else:
            _utils().safe_set_local_optimizer_state(weight, piece, moment)


@dataclass(frozen=True)
class ZeroState:
    """What a checkpoint keeps, as FSDP2 has it: DTensors of rows, which are made of one whole
    weight after the other, on the CPU.
    """

    spread: Zero
    optimizer: torch.optim.Optimizer
    groups: list[dict[str, Any]]
    """The optimizer's groups, with the names of their weights."""

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's rows, by the names of the weights."""
        spread, weights = self.spread, dict(self.spread.model.named_parameters())
        mesh = DeviceMesh.from_group(spread.ranks.control or dist.group.WORLD, "cpu")
        step = float(next(iter(self.optimizer.state.values()))["step"])
        state = {
            name: {
                "step": torch.tensor(step),
                **{each: _rows(spread.whole(weight, each), mesh) for each in MOMENTS},
            }
            for name, weight in weights.items()
        }
        return {
            "model": {name: _rows(spread.whole(each), mesh) for name, each in weights.items()},
            "optimizer": {"state": state, "param_groups": self.groups},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over such rows."""
        moments = state["optimizer"]["state"]
        for name, weight in self.spread.model.named_parameters():
            self.spread.keep(weight, state["model"][name].full_tensor())
            for moment in MOMENTS:
                self.spread.keep(weight, moments[name][moment].full_tensor(), moment)
        step = next(iter(moments.values()))["step"]
        for kept in self.optimizer.state.values():
            kept["step"].copy_(step)


def _utils() -> Any:
    """Return DeepSpeed's functions for what it has split (its documentation, "Debugging")."""
    return importlib.import_module("deepspeed.utils")


def _rows(whole: Tensor, mesh: DeviceMesh) -> DTensor:
    """Return this rank's rows of a tensor, as FSDP2 cuts it."""
    parts = whole.chunk(mesh.size())
    place = mesh.get_local_rank()
    rows = parts[place] if place < len(parts) else whole[:0]
    rows = rows.detach().to("cpu", copy=True)
    shape = {"shape": whole.shape, "stride": whole.stride()}
    return DTensor.from_local(rows, mesh, [Shard(0)], run_check=False, **shape)
