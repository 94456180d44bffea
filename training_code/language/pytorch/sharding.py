"""The ways to spread a model over the ranks: DDP, FSDP2 and, over several hosts, both (HSDP).

| way | each rank keeps of weights, gradients and optimizer | messages of a step |
| --- | --- | --- |
| ddp | all | all-reduce of the gradients |
| fsdp | 1/N over all N ranks | all-gather of the weights, reduce-scatter of the gradients |
| hsdp | 1/n over the n ranks of a host | those within the host, all-reduce between hosts |

All of them start from the same weights and compute the same steps.
"""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from common.ranks import Ranks
from config import Config
from model import Transformer, parts_of
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

try:  # since PyTorch 2.6
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:  # in the images that have smddp, PyTorch 2.4 and 2.5
    from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard

WAYS = ("ddp", "fsdp", "hsdp")
PRECISIONS = ("auto", "float32", "bf16", "float64")
INITIAL_STD = 0.02
MAX_GRADIENT_NORM = 1.0
"""Llama 2's (arXiv 2307.09288, section 2.2)."""


@dataclass(frozen=True)
class Plan:
    """How a run spreads its model, and in what it computes."""

    sharding: str = "ddp"
    precision: str = "float32"
    checkpointing: bool = False
    """Compute each layer again in backward, instead of keeping what it computed."""
    compiled: bool = False
    shard_size: int = 0
    """Ranks in a group of hsdp; 0: those of a host."""

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of weights, gradients and optimizer: bf16 is only computed in."""
        return torch.float64 if self.precision == "float64" else torch.float32


@dataclass
class Spread:
    """A model that is spread over the ranks."""

    model: Transformer
    """What has the weights: whole ones, or this rank's part of each."""
    module: nn.Module
    """What computes, and averages gradients over the ranks in backward."""
    plan: Plan
    device: torch.device
    parts: Any
    """The group of the ranks that keep a part each; None where each keeps all."""

    @contextmanager
    def pass_of_step(self, *, last: bool) -> Iterator[None]:
        """Compute one pass of a step; only the last one's backward averages gradients."""
        ddp = isinstance(self.module, DistributedDataParallel)
        if self.plan.sharding != "ddp":
            self.module.set_requires_gradient_sync(last)
        with self.module.no_sync() if ddp and not last else nullcontext():
            yield

    def autocast(self) -> torch.autocast:
        """Return the context of forward: FSDP2 casts by itself."""
        enabled = self.plan.precision == "bf16" and self.plan.sharding == "ddp"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)

    def step(self, optimizer: torch.optim.Optimizer) -> Tensor:
        """Clip the gradients and change the weights. Return the norm that the gradients had."""
        norm = self._clip_gradients(MAX_GRADIENT_NORM)
        optimizer.step()
        return norm

    def _clip_gradients(self, max_norm: float) -> Tensor:
        """Scale the gradients, so that all of them together have at most this norm. Return the norm
        that they had.

        torch's own function depends on what DTensor does, which PyTorch 2.4 did less exactly.
        """
        gradients = [local(each.grad) for each in self.model.parameters()]
        square = torch.stack(torch._foreach_norm(gradients)).square().sum()
        if self.parts is not None:
            dist.all_reduce(square, group=self.parts)
        norm = square.sqrt()
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1))
        return norm

    def whole_weights(self) -> dict[str, Tensor]:
        """Return the weights on the CPU of rank 0, nothing on the others; all ranks call it."""
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        return get_model_state_dict(self.model, options=options)  # type: ignore[no-any-return, unused-ignore]


def spread(config: Config, seed: int, plan: Plan, ranks: Ranks) -> Spread:
    """Make a model, of which no rank ever holds more than its part and one weight.

    Raise ValueError if the ranks do not divide into the plan's groups.
    """
    mesh = _mesh(plan, ranks)
    with torch.device("meta"):
        model = Transformer(config).to(plan.dtype)
    for layer in model.model.layers:
        layer.checkpointing = plan.checkpointing
    if plan.compiled:
        # where ranks send messages, a layer at a time: they travel while the next one computes
        alone = mesh is None and ranks.world_size == 1
        for part in [model] if alone else model.model.layers:
            part.compile()
    if mesh is not None:
        policy = MixedPrecisionPolicy()
        if plan.precision == "bf16":
            policy = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)
        # a tied table is used at both ends: it is gathered once, with the norm
        ends = [] if config.tie_word_embeddings else [model.model.embed_tokens, model.lm_head]
        for part in (*model.model.layers, *ends, model):
            fully_shard(part, mesh=mesh, mp_policy=policy)
    model.to_empty(device=ranks.device)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            whole = initial_weight(config, name, weight.shape, seed)
            local(weight).copy_(_part(whole, weight))
    module: nn.Module = model
    if plan.sharding == "ddp" and ranks.world_size > 1:
        module = DistributedDataParallel(model, gradient_as_bucket_view=True)
    parts = None if mesh is None else mesh.get_group(mesh.ndim - 1)
    return Spread(model, module, plan, ranks.device, parts)


def initial_weight(config: Config, name: str, shape: torch.Size, seed: int) -> Tensor:
    """Return a weight before training, float32: it depends on seed and name alone.

    So a rank that keeps a part of each weight can draw one after the other. What adds to the
    residual stream is smaller in deeper models (Radford et al. 2019, section 2.3).
    """
    if name.endswith("norm.weight"):
        return torch.ones(shape)
    adds = name.endswith(("o_proj.weight", "down_proj.weight"))
    std = INITIAL_STD / math.sqrt(2 * config.num_hidden_layers) if adds else INITIAL_STD
    parts = parts_of(config, name, shape[0]).items()
    draws = [torch.randn(rows, *shape[1:], generator=seeded(seed, part)) for part, rows in parts]
    return torch.cat(draws) * std


def seeded(seed: int, name: str) -> torch.Generator:
    """Return the source of chance for what has this name."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def _mesh(plan: Plan, ranks: Ranks) -> Any:
    if plan.sharding == "ddp":
        return None
    if plan.sharding == "fsdp":
        return init_device_mesh(ranks.device.type, (ranks.world_size,))
    if ranks.backend == "smddp":
        raise ValueError("--sharding hsdp needs groups of ranks, and smddp has none: take fsdp")
    size = plan.shard_size or ranks.local_world_size
    if ranks.world_size % size:
        raise ValueError(f"{ranks.world_size} ranks do not divide into groups of {size}")
    groups, names = (ranks.world_size // size, size), ("replicate", "shard")
    return init_device_mesh(ranks.device.type, groups, mesh_dim_names=names)


def _part(whole: Tensor, weight: Any) -> Tensor:
    """Return this rank's part, cut as FSDP2 does: in the pieces of torch.chunk."""
    for dimension, placement in enumerate(getattr(weight, "placements", ())):
        if placement.is_shard():
            parts = whole.chunk(weight.device_mesh.size(dimension), dim=placement.dim)
            place = weight.device_mesh.get_local_rank(dimension)
            whole = parts[place] if place < len(parts) else whole[:0]
    return whole


def local(tensor: Any) -> Tensor:
    """Return this rank's part of a tensor that may be sharded."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
