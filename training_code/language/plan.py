"""What a rank of the training job needs of its GPU, without torch.

`shoal plan` and `shoal check` ask it (`plan` in workload.yaml). Memory is counted, tensor by
tensor, from what `pytorch/` keeps; no number here is fitted. Tokens are taken to be bytes. How long
a step takes is not said: nobody has measured this model on AWS's GPUs.
"""

import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

Config: Any = runpy.run_path(str(Path(__file__).with_name("pytorch") / "config.py"))["Config"]
"""The sizes of a model, `shape` below."""
OUTSIDE_BYTES = 2 * 2**30
"""What PyTorch's allocator does not count: CUDA's context and NCCL's buffers. It is an assumption:
NVIDIA publishes no number, and it grows with the number of channels."""
ALL_REDUCE_BYTES = 4
"""Gradients travel in float32 (`reduce_dtype`, and DDP's buckets)."""
FIRST_WITH_FUSED_NORM = (2, 9)
"""The first PyTorch whose rms_norm is one kernel on a GPU (github.com/pytorch/pytorch/pull/153666).
"""
DEFAULTS: dict[str, Any] = {
    "depth": 2,
    "context": 256,
    "batch-size": 32,
    "steps": 1000,
    "sharding": "ddp",
    "shard-size": 0,
    "precision": "auto",
    "accumulation": 1,
    "checkpointing": False,
    "compile": True,
    "backend": "auto",
}
"""Those of train.py on GPUs."""
CHOICES = {
    "sharding": ("ddp", "fsdp", "hsdp"),
    "precision": ("auto", "float32", "bf16", "float64"),
}
WHOLE = [name for name, value in DEFAULTS.items() if type(value) is int]
SWITCHES = [name for name, value in DEFAULTS.items() if type(value) is bool]


@dataclass(frozen=True)
class Numbers:
    """The bytes of a number, by what it is."""

    kept: int
    """Of weights, gradients and Adam's moments."""
    computed: int
    """Of what matrices are multiplied with."""
    hidden: int
    """Of what runs from layer to layer."""
    cast: bool
    """Whether autocast makes a copy of what is multiplied: DDP in bf16."""
    fused_norm: bool = False

    @classmethod
    def of(cls, precision: str, sharding: str, *, fused_norm: bool) -> "Numbers":
        """Return them for two hyperparameters; `auto` is bf16 on every GPU that is asked for."""
        if precision in ("float64", "float32"):
            size = 8 if precision == "float64" else 4
            return cls(size, size, size, cast=False, fused_norm=fused_norm)
        cast = sharding == "ddp"
        return cls(4, 2, 4 if cast else 2, cast=cast, fused_norm=fused_norm)


def kept_by_layer(shape: Any, numbers: Numbers, *, compiled: bool = False) -> int:
    """Return the bytes that a layer keeps of a token for backward, without checkpointing.

    After Korthikanti et al. (arXiv 2205.05198, section 4.1), for this layer: attention of the flash
    kind keeps queries, keys, values, its result and a sum for each head, but no scores; PyTorch
    2.4 repeats keys and values for all query heads; the feed-forward network keeps gate, its SiLU,
    which a compiled one computes again, up and their product. `test_plan.py` counts what autograd
    keeps.
    """
    width, middle = shape.hidden_size, shape.intermediate_size
    exact = max(4, numbers.kept)
    multiplied = 3  # for q, k and v, for o, and for gate and up
    kept = (multiplied + 1) * width + 2 * shape.shared_size
    attention = kept * numbers.computed + exact * shape.num_attention_heads
    vectors = 3 if compiled else 4
    return 2 * _norm(shape, numbers) + attention + vectors * middle * numbers.computed


def _norm(shape: Any, numbers: Numbers) -> int:
    """Return the bytes that a norm keeps of a token: one number, and what it scaled.

    One kernel keeps what came in. PyTorch before it keeps that in float32, and the scaled vector.
    """
    exact = max(4, numbers.kept)
    vectors = numbers.hidden if numbers.fused_norm else 2 * exact
    return exact + vectors * shape.hidden_size


def memory(
    shape: Any,
    numbers: Numbers,
    ranks: int,
    tokens: int,
    kept: int,
    again: int = 0,
    passes: int = 1,
) -> dict[str, int]:
    """Return the bytes of a rank when it needs most, by what they are for.

    `ranks` share the weights, 1 where each has all; a rank computes `tokens` at a time, of which
    each layer keeps `kept` bytes each, and computes `again` bytes once more in backward. Most is
    needed when backward begins with the loss, or with the last layer. Weights in use are FSDP2's
    (`torch/distributed/fsdp/_fully_shard`): those outside the layers, two layers, and the
    all-gather's own buffer in a stream of its own. Gradients of the last step count too: their
    memory belongs to the reduce-scatter's stream. Before the last of several `passes` nothing is
    reduced, and each rank keeps the gradients of all weights (`unsharded_accumulated_grad`).
    """
    parts = {
        "weights": numbers.kept * shape.weights // ranks,
        "gradients": numbers.kept * shape.weights // ranks,
        "optimizer": 2 * numbers.kept * shape.weights // ranks,
    }
    layer, other = shape.layer_weights, shape.other_weights
    if ranks > 1:
        gathered = other + 2 * layer + max(other, 2 * layer)
        parts["gathered weights"] = numbers.computed * gathered
        if passes > 1:
            parts["whole gradients"] = numbers.kept * shape.weights
    elif numbers.cast:
        parts["weights in bf16"] = numbers.computed * shape.weights
    ends = _norm(shape, numbers) + numbers.computed * shape.hidden_size
    parts["activations"] = tokens * (shape.num_hidden_layers * kept + ends)
    # logits; in float32 their logarithms, the loss's gradient and that of the logarithms
    loss = tokens * shape.vocab_size * (numbers.computed + 3 * max(4, numbers.kept))
    gradients = tokens * numbers.computed * (3 * shape.intermediate_size + 2 * shape.hidden_size)
    reduced = (numbers.computed + 2 * ALL_REDUCE_BYTES) * layer if ranks > 1 else 0
    parts["loss or a layer's backward"] = max(loss, tokens * again + gradients + reduced)
    parts["outside PyTorch"] = OUTSIDE_BYTES
    return parts


def plan(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a rank of `job` needs; raise ValueError if its ranks could not start.

    `job` has `hyperparameters`, `ranks`, `ranks_per_node`, `gpu` and `gpu_gib` of each
    rank, `framework_version`, and `smddp`, whether the backend `auto` is smddp.
    """
    options = DEFAULTS | dict(job["hyperparameters"])
    options |= {name: int(options[name]) for name in WHOLE}
    for name, allowed in CHOICES.items():
        if options[name] not in allowed:
            raise ValueError(f"{name} {options[name]} is not one of {', '.join(allowed)}")
    options |= {name: str(options[name]).lower() in ("true", "1") for name in SWITCHES}
    # train.py refuses this combination when its ranks have met
    over_smddp = options["backend"] == "smddp" or (options["backend"] == "auto" and job["smddp"])
    if options["sharding"] == "hsdp" and over_smddp:
        raise ValueError(
            "sharding hsdp does not go with smddp, which has no groups of ranks; take fsdp"
        )
    passes = job["ranks"] * options["accumulation"]
    if options["batch-size"] % passes:
        raise ValueError(
            f"batch-size {options['batch-size']} is not divisible by {job['ranks']} ranks times"
            f" accumulation {options['accumulation']}"
        )
    needed = _needed(options, job)
    return {
        "memory": needed,
        "steps": options["steps"],
        "smaller": list(_smaller(options, job, sum(needed.values()))),
    }


def _needed(options: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, int]:
    """Return the bytes of a rank; raise ValueError if a model or its parts cannot be so."""
    shape, passes = Config.of_depth(options["depth"]), options["accumulation"]
    fused = tuple(map(int, job["framework_version"].split(".")[:2])) >= FIRST_WITH_FUSED_NORM
    numbers = Numbers.of(options["precision"], options["sharding"], fused_norm=fused)
    tokens = options["batch-size"] // (job["ranks"] * passes) * options["context"]
    kept, again = kept_by_layer(shape, numbers, compiled=options["compile"]), 0
    if options["checkpointing"]:
        kept, again = numbers.hidden * shape.hidden_size, kept
    return memory(shape, numbers, _sharing(options, job), tokens, kept, again, passes)


def _sharing(options: Mapping[str, Any], job: Mapping[str, Any]) -> int:
    """Return how many ranks share the weights."""
    if options["sharding"] == "ddp":
        return 1
    if options["sharding"] == "fsdp":
        return int(job["ranks"])
    size = options["shard-size"] or job["ranks_per_node"]
    if job["ranks"] % size:
        raise ValueError(f"{job['ranks']} ranks do not divide into groups of {size}")
    return int(size)


def _smaller(
    options: Mapping[str, Any], job: Mapping[str, Any], least: int
) -> Iterator[dict[str, Any]]:
    """Yield hyperparameters that learn the same, those that cost least time first: each needs less
    than all before it, and less than `least` bytes.
    """
    single, most = 1, options["batch-size"] // job["ranks"]
    precision = options["precision"]
    choices = {
        "sharding": ("fsdp",),
        "precision": (precision,) if precision == "auto" else (precision, "bf16"),
        "checkpointing": (options["checkpointing"], True),
        "accumulation": (options["accumulation"], single, most),
    }
    for values in product(*choices.values()):
        changed = dict(zip(choices, values, strict=True))
        needed = sum(_needed({**options, **changed}, job).values())
        if needed < least:
            least = needed
            yield {name: value for name, value in changed.items() if value != options[name]}
