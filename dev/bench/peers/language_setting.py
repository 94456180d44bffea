"""What all contenders with the language model share: command line, weights, data, rate and clock.

The peers train transformers' LlamaForCausalLM from the weights that Shoal's script begins with, on
the same sequences in the same order, with the same AdamW and rate, so that the losses after the
same steps agree.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from setting import report
from torch.utils.data import Dataset

sys.path.insert(0, os.environ["BENCH_TRAINING_CODE"])
# by name: for the type checker, these are another workload's
language: Any = importlib.import_module("model")
data: Any = importlib.import_module("data")
tokenizer: Any = importlib.import_module("tokenizer")
train: Any = importlib.import_module("train")


@dataclass(frozen=True)
class Setting:
    """One run: `steps` timed steps of a global batch after `warm_up` untimed ones."""

    way: str
    """How the ranks share the work: ddp or fsdp."""
    data: Path
    depth: int
    context: int
    batch: int
    """Sequences per step over all ranks."""
    precision: str
    rate: float
    warm_up: int
    steps: int
    compile: bool
    """Whether torch.compile takes the layers."""
    cycles: int
    """If not 0, run so many cycles of phases (phases.py) of `steps` steps instead."""

    @property
    def total(self) -> int:
        """Steps of the run."""
        return self.warm_up + self.steps


def parse() -> Setting:
    """Parse the command line, which is the same for every contender.

    By default a step has as many bytes as the demo's, in half as many sequences, twice as long.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("way", choices=("ddp", "fsdp"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--precision", choices=("float32", "bf16"), default="bf16")
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cycles", type=int, default=0)
    return Setting(**vars(parser.parse_args()))


def network(setting: Setting) -> Any:
    """Return transformers' Llama with the weights that Shoal's script begins with."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = language.Config.of_depth(setting.depth, setting.context)
    model = LlamaForCausalLM(LlamaConfig.from_dict(json.loads(config.to_json())))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(language.initial_weight(config, name, weight.shape, seed=1))
    return model.train()


class Sequences(Dataset[dict[str, torch.Tensor]]):  # type: ignore[misc, unused-ignore] # untyped where torch is not installed
    """The sequences of a run, each with the bytes after its own, in Shoal's order."""

    def __init__(self, setting: Setting) -> None:
        self._corpus = data.Corpus.read(setting.data, setting.context, 1, tokenizer.Bytes())
        self._count = setting.total * setting.batch

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens, targets = self._corpus.batch(index, 1)
        return {"input_ids": tokens[0], "labels": targets[0]}


def new_optimizer(
    model: Any, setting: Setting, *, fused: bool = True
) -> tuple[torch.optim.Optimizer, Any]:
    """Return AdamW with Shoal's settings, and the schedule of its rate."""
    groups: list[dict[str, Any]] = [
        {"params": [each for each in model.parameters() if each.ndim > 1], "weight_decay": 0.1},
        {"params": [each for each in model.parameters() if each.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=setting.rate, betas=train.BETAS, fused=fused)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: train.cosine(min(step / setting.total, 1))
    )
    return optimizer, schedule


Add = Callable[..., list[float]]
SAME_STEPS = 10
"""So long, while the rate warms up in a full run, the contenders' losses are the same but for
rounding. Later bf16 drives them apart, as far as other seeds would.
"""
LAST_STEPS = 50
"""Steps whose mean is the loss at the end; a run of fewer steps takes all but the warm-up."""


class Clock:
    """Times the steps after the warm-up, in wall time and in the ranks' CPU time.

    The second one says how much work a step is, on a machine that others use too.
    """

    def __init__(self, setting: Setting, add: Add | None = None) -> None:
        self._setting, self._add = setting, add or add_over_ranks
        self._losses: list[torch.Tensor] = []
        self._wall_s = self._cpu_s = 0.0

    def step_ended(self, loss: torch.Tensor) -> None:
        """Count a step; after the last one, rank 0 reports. `loss` is the mean of this rank's
        sequences.
        """
        self._losses.append(loss.detach())
        if len(self._losses) == self._setting.warm_up:
            self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()
        elif len(self._losses) == self._setting.total:
            wall_s = time.perf_counter() - self._wall_s
            self._report(wall_s, time.process_time() - self._cpu_s)

    def _report(self, wall_s: float, cpu_s: float) -> None:
        setting = self._setting
        early = float(self._losses[:SAME_STEPS][-1])
        last = self._losses[-min(LAST_STEPS, setting.steps) :]
        cpu_s, early, late = self._add(cpu_s, early, float(sum(last)) / len(last))
        if dist.get_rank() == 0:
            report(
                tokens_per_s=setting.steps * setting.batch * setting.context / wall_s,
                cpu_ms=1000 * cpu_s / setting.steps,
                early_loss=early / dist.get_world_size(),
                late_loss=late / dist.get_world_size(),
            )


def add_over_ranks(*values: float) -> list[float]:
    """Add each value over all ranks."""
    sums = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(sums)
    return [float(each) for each in sums]
