"""The language model on two ranks: Shoal's script, and the peers with the same model, data and
optimizer.

Shoal's script runs by mpirun over smddp's stand-in (MPI), where its name says nothing of gloo; the
peers run by torchrun over gloo.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.bench import environments
from dev.bench.interleave import Contender, Metrics, Result
from dev.bench.machine import REPOSITORY
from dev.bench.training import RANKS, SCRIPTS, Phases, mpirun, start, torchrun

WORKLOAD = REPOSITORY / "training_code" / "language"
TEXT = REPOSITORY / ".shoal" / "bench-text"

SHOAL, SHOAL_FSDP, SHOAL_PHASES = "Shoal, DDP", "Shoal, FSDP2", "Shoal, DDP, in phases"
SHOAL_LARGE_PHASES = "Shoal, DDP, in phases, 8192 tokens a step"
SHOAL_COMPILED = "Shoal, DDP, compiled"
SHOAL_GLOO, SHOAL_GLOO_COMPILED = "Shoal, DDP over gloo", "Shoal, DDP over gloo, compiled"
DDP, FSDP, DDP_COMPILED = "PyTorch's DDP", "PyTorch's FSDP2", "PyTorch's DDP, compiled"
TRAINER, LIGHTNING = "Hugging Face Trainer", "Lightning Trainer"
LOSS_BAND = 0.02
"""Nats by which the losses of one of the first steps may differ: bf16 rounds in another order."""
_SCRIPTS = {
    SHOAL: ("language_shoal.py", "ddp"),
    SHOAL_COMPILED: ("language_shoal.py", "ddp", "--compile"),
    SHOAL_FSDP: ("language_shoal.py", "fsdp"),
    SHOAL_GLOO: ("language_shoal.py", "ddp"),
    SHOAL_GLOO_COMPILED: ("language_shoal.py", "ddp", "--compile"),
    DDP: ("language_torch.py", "ddp"),
    DDP_COMPILED: ("language_torch.py", "ddp", "--compile"),
    FSDP: ("language_torch.py", "fsdp"),
    TRAINER: ("language_trainer.py", "ddp"),
    LIGHTNING: ("language_lightning.py", "ddp"),
}


@dataclass(frozen=True)
class Length:
    """The work of one run."""

    warm_up: int
    steps: int

    @property
    def words(self) -> list[str]:
        """Return the command line options."""
        return ["--warm-up", str(self.warm_up), "--steps", str(self.steps)]


QUICK_LENGTH, FULL_LENGTH = Length(5, 30), Length(10, 200)


def contenders(length: Length) -> list[Contender]:
    """Return all contenders, on the demo's model with 8 sequences of 256 bytes a step in bf16.

    The demo has as many bytes a step in 16 sequences of 128, and FSDP2 over AllGather by torchrun.
    """
    text = _text()
    return [_contender(name, name, text, length) for name in _SCRIPTS]


def warning_of(result: Result) -> str:
    """Return a warning if the contenders did not compute the same; "" if they did."""
    losses = [result.figure(name, "early_loss").median for name in _SCRIPTS]
    if max(losses) - min(losses) <= LOSS_BAND:
        return ""
    return f"The losses differ by more than {LOSS_BAND}: the speeds are not of the same work."


def scaling(phases: Phases) -> list[Contender]:
    """Return Shoal's script as it measures how well its ranks scale over smddp's stand-in, with the
    contenders' batch and one that is four times as large: a message costs the same for both.
    """
    large = ("--batch", "32")
    return [
        _contender(SHOAL_PHASES, SHOAL, _text(), phases),
        _contender(SHOAL_LARGE_PHASES, SHOAL, _text(), phases, *large),
    ]


def _contender(name: str, kind: str, text: Path, length: Length | Phases, *more: str) -> Contender:
    script, *words = _SCRIPTS[kind]
    ours = script == "language_shoal.py"
    python = environments.shipped("pytorch") if ours else environments.peers()
    by_mpirun = ours and kind not in (SHOAL_GLOO, SHOAL_GLOO_COMPILED)
    launcher = mpirun(python) if by_mpirun else torchrun(python)
    command: Sequence[str | Path] = [*launcher, SCRIPTS / script, *words, "--data", text]
    variables = {
        "BENCH_TRAINING_CODE": str(WORKLOAD / "pytorch"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",  # as torchrun sets it
    }

    def measure() -> Metrics:
        return dict(
            start([*command, *length.words, *more], RANKS, variables, timeout_s=1200).result
        )

    return Contender(name, measure, start=str(python.parent))


def _text() -> Path:
    """Return the channel to learn from; write it first if need be."""
    prepare = [sys.executable, str(WORKLOAD / "prepare.py"), "--out", str(TEXT)]
    if not (TEXT / "train").is_dir():
        subprocess.run(prepare, check=True, stdout=subprocess.DEVNULL)
    return TEXT / "train"
