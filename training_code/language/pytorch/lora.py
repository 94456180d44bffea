"""Low-rank adapters (Hu et al., arXiv 2106.09685): the base's weights stay as they are, and next to
each matrix the product of two small ones is learned.

Names, and the files that `save_adapter` writes, are those of the package peft.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from model import ADAPTER_FOLDER, Transformer, seeded, write_safetensors
from torch import Tensor, nn

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The matrices of a layer, by the names of transformers' LlamaForCausalLM."""


@dataclass(frozen=True)
class Lora:
    """The size of the adapters, and where they are."""

    rank: int
    alpha: float
    targets: tuple[str, ...]

    @property
    def scale(self) -> float:
        """Return what an adapter's product is multiplied by."""
        return self.alpha / self.rank


class Adapted(nn.Linear):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """A linear layer of the base, and its adapter."""

    def __init__(self, linear: nn.Linear, lora: Lora) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=False)
        self.lora_A = nn.Linear(linear.in_features, lora.rank, bias=False)
        self.lora_B = nn.Linear(lora.rank, linear.out_features, bias=False)
        self.scale = lora.scale

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the base's output and the adapter's, added."""
        return super().forward(hidden) + self.scale * self.lora_B(self.lora_A(hidden))  # type: ignore[no-any-return, unused-ignore]


def adapt(model: Transformer, lora: Lora) -> None:
    """Give the model adapters, and let nothing else of it be trained."""
    linears = [
        (name, module)
        for name, module in model.named_modules()
        if name.rpartition(".")[2] in lora.targets
    ]
    for name, module in linears:
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, Adapted(module, lora))
    for name, weight in model.named_parameters():
        weight.requires_grad_(is_adapter(name))


def is_adapter(name: str) -> bool:
    """Return whether a weight with this name is part of an adapter."""
    return ".lora_" in name


def initial_adapter(name: str, shape: torch.Size, seed: int) -> Tensor:
    """Return a weight before training, float32, by seed and name as `initial_weight`.

    As in peft, B is zero and A is uniform: an adapter changes nothing before the first step.
    """
    if name.endswith("lora_B.weight"):
        return torch.zeros(shape)
    draw = torch.rand(shape, generator=seeded(seed, name))
    return (2 * draw - 1) / math.sqrt(shape[1])


def merged(weights: Mapping[str, Tensor], lora: Lora) -> dict[str, Tensor]:
    """Return the weights of the model without adapters that computes the same."""
    plain = {name: weight for name, weight in weights.items() if not is_adapter(name)}
    for name in weights:
        if name.endswith(".lora_A.weight"):
            place = name.removesuffix("lora_A.weight")
            product = weights[f"{place}lora_B.weight"] @ weights[name]
            plain[f"{place}weight"] = plain[f"{place}weight"] + lora.scale * product
    return plain


def save_adapter(weights: Mapping[str, Tensor], lora: Lora, model_dir: Path) -> None:
    """Write the adapters of a state_dict as peft does: `PeftModel.from_pretrained` reads them."""
    folder = model_dir / ADAPTER_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    adapters = {
        f"base_model.model.{name}": weight for name, weight in weights.items() if is_adapter(name)
    }
    write_safetensors(adapters, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": None,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(lora.targets),
        "bias": "none",
        "inference_mode": True,
    }
    text = json.dumps(config, indent=2, sort_keys=True)
    (folder / "adapter_config.json").write_text(f"{text}\n")
