"""Runs training_code/language/pytorch/train.py, and reads what a job says and leaves."""

from __future__ import annotations

import json
import re
import struct
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from local.tests.smddp.runtime import Runtime
from tests.repository import CHECKOUT

CODE = CHECKOUT / "training_code" / "language" / "pytorch"
_RANKS = Path(__file__).with_name("scripts") / "run_ranks.py"
_LOSS = re.compile(r"^step=(\d+)/\d+ train_loss=(\S+) ", re.MULTILINE)
_KEPT = re.compile(r"(\w+)_bytes=(\d+)")
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Job:
    """A run of train.py in a folder of its own: options without their dashes."""

    folder: Path
    options: dict[str, str | int] = field(default_factory=dict)

    @property
    def checkpoints(self) -> list[Path]:
        """Return the folders of its checkpoints, the oldest first."""
        return sorted((self.folder / "checkpoints").iterdir())

    def arguments(self, text: Path) -> list[str]:
        """Return the command line."""
        folders = {"train-dir": text, "model-dir": self.folder / "model"}
        return [
            word
            for name, value in {**folders, **self.options}.items()
            for word in (f"--{name}", str(value))
        ]

    def weights(self) -> array[float]:
        """Return all numbers of its model, which is one of float64."""
        content = (self.folder / "model" / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        return array("d", content[8 + length :])


@dataclass(frozen=True)
class Result:
    """How a job ended."""

    job: Job
    status: int
    output: str

    @property
    def curve(self) -> dict[int, float]:
        """Return the loss at each step."""
        return {int(step): float(loss) for step, loss in _LOSS.findall(self.output)}

    @property
    def kept(self) -> dict[str, int]:
        """Return the bytes that a rank kept of weights, gradients and optimizer."""
        return {name: int(size) for name, size in _KEPT.findall(self.output)}


def run(runtime: Runtime, text: Path, ranks: int, *jobs: Job) -> list[Result]:
    """Run jobs one after the other, each on so many ranks."""
    folder = jobs[0].folder
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    runs = [json.dumps(job.arguments(text)) for job in jobs]
    outcome = runtime.run(runtime.alone(_RANKS, str(ranks), file, *runs), folder)
    assert outcome.returncode == 0, outcome.output
    pairs = json.loads(file.read_text())
    return [Result(job, *pair) for job, pair in zip(jobs, pairs, strict=True)]


def difference(one: array[float], other: array[float]) -> float:
    """Return the largest difference of two models' weights."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def write_text(folder: Path) -> Path:
    """Write a small text to learn from, and return its channel."""
    channel = folder / "train"
    channel.mkdir(parents=True)
    words = ("shoal", "of", "fish", "turns", "as", "one", "when", "light", "falls", "on", "it")
    sentences = (" ".join(words[at * step % 11] for at in range(9)) for step in range(1, 60))
    (channel / "fish.txt").write_text(".\n".join(sentences))
    return channel
