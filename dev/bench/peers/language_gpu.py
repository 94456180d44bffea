"""The language model on one GPU: tokens/s and MFU in bf16, eager and compiled, beside a lean loop.

    python dev/bench/peers/language_gpu.py --out bench-out/language-gpu.json [--device cpu]

Shoal's own step is measured, on random bytes, at two sizes. The lean loop is the limit: the same
network, its loss in the compiled graph, one pinned copy, fused AdamW, and nothing else. `--device
cpu` tries the script with a tiny model and compiles nothing; its figures say nothing.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CODE = Path(__file__).resolve().parents[3] / "training_code" / "language" / "pytorch"
sys.path[:0] = [str(CODE), str(CODE.parents[1])]  # the other has `common`

import gpu
import torch

# by name: for the type checker, these are another workload's
model: Any = importlib.import_module("model")
ranks: Any = importlib.import_module("common.ranks")
sharding: Any = importlib.import_module("sharding")
speed: Any = importlib.import_module("speed")
train: Any = importlib.import_module("train")

Step = Callable[[int], Any]


@dataclass(frozen=True)
class Size:
    """The model and the batch."""

    depth: int
    context: int
    batch: int
    steps: int
    """Timed ones, after as many untimed ones as `WARM_UP`."""


GPU = (Size(depth=8, context=2048, batch=16, steps=50), Size(16, 2048, batch=8, steps=30))
CPU = (Size(depth=1, context=64, batch=2, steps=3),)
"""Depth 8 has 109 million weights, about as many as GPT-2 small, and 16 has 873 million."""
WARM_UP = 5
ROUNDS = 3


@dataclass(frozen=True)
class Outcome:
    """One way, over all rounds."""

    depth: int
    way: str
    tokens_per_s: float
    mfu: float
    first_step_s: float
    """With compilation."""


def main() -> None:
    """Measure each way in turn; write one JSON file and print a line for each."""
    options = gpu.parser("The language model on one GPU.").parse_args()
    device = gpu.device_of(options)
    sizes = GPU if device.type == "cuda" else CPU
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        text = Path(folder) / "train"
        text.mkdir()
        letters = torch.randint(97, 123, (2_000_000,), generator=torch.Generator().manual_seed(1))
        (text / "letters.txt").write_bytes(bytes(letters.tolist()))
        with ranks.joined("auto", {}) as place:
            outcomes = [each for size in sizes for each in measure(size, text, place)]
    for outcome in outcomes:
        print(
            f"depth {outcome.depth}, {outcome.way}: {outcome.tokens_per_s:,.0f} tokens/s,"
            f" MFU {outcome.mfu:.3f}, first step {outcome.first_step_s:.1f} s",
            flush=True,
        )
    ways = [asdict(outcome) for outcome in outcomes]
    gpu.write(options.out, device, sizes=[asdict(size) for size in sizes], ways=ways)


def measure(size: Size, text: Path, place: Any) -> list[Outcome]:
    """Return the outcome of each way."""
    device = place.device
    torch.compiler.reset()  # which would compile the second size for batches of any size
    run = shoal(size, text, place, compiled=False)
    compiled = shoal(size, text, place, compiled=device.type == "cuda")
    ways: dict[str, Step] = {
        "Shoal": lambda number: train.train_step(run, number),
        "Shoal, compiled": lambda number: train.train_step(compiled, number),
        "lean loop, compiled": lean_loop(run),
    }
    first_s = {way: seconds(device, step, range(1)) for way, step in ways.items()}
    for step in ways.values():
        seconds(device, step, range(1, WARM_UP))
    times: dict[str, list[float]] = {way: [] for way in ways}
    for part in range(ROUNDS):
        numbers = range(WARM_UP + part * size.steps, WARM_UP + (part + 1) * size.steps)
        for way, step in ways.items():
            times[way].append(seconds(device, step, numbers))
    peak, _ = speed.peak_flops(device, "bf16")
    per_token = speed.flops_per_token(run.config)
    outcomes = []
    for way, each in times.items():
        rate = size.steps * size.batch * size.context / statistics.median(each)
        outcomes.append(Outcome(size.depth, way, rate, rate * per_token / peak, first_s[way]))
    return outcomes


def shoal(size: Size, text: Path, place: Any, *, compiled: bool) -> Any:
    """Return a run of Shoal's script."""
    options = {
        "depth": size.depth,
        "context": size.context,
        "batch-size": size.batch,
        "precision": "bf16",
        "learning-rate": 0.0006,
        "compile": compiled,
        "train-dir": text,
        "model-dir": text.parent / "model",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return train.set_up(train.parse_options(words, {}), place, train.StopRequest())


def lean_loop(run: Any) -> Step:
    """Return a step of a lean loop over the same sequences, with a network of its own."""
    device = run.ranks.device
    network = model.Transformer(run.config).to(device)
    compute = torch.compile(network) if device.type == "cuda" else network
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.0006, betas=train.BETAS, fused=True)

    def step(number: int) -> None:
        batch = run.options.batch_size
        both = torch.stack(run.corpus.batch(number * batch, batch))
        both = both.pin_memory() if device.type == "cuda" else both
        tokens, targets = both.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = compute(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), sharding.MAX_GRADIENT_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def seconds(device: torch.device, step: Step, numbers: range) -> float:
    """Return how long these steps take, on the device too."""
    started_at = gpu.now(device)
    for number in numbers:
        step(number)
    return gpu.now(device) - started_at


if __name__ == "__main__":
    main()
