"""The run's options, and what follows from them: its length, its batches and its learning rates."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WARM_UP_SHARE = 0.3


@dataclass(frozen=True)
class Options:
    """The settings of a run.

    Runs of one script with equal options (but for folders) give equal models.
    """

    epochs: int
    batch_size: int | None
    batch_size_per_rank: int | None
    learning_rate: float
    reference_batch_size: int
    seed: int
    log_every: int
    checkpoint_every: int
    train_dir: Path
    test_dir: Path
    model_dir: Path
    checkpoint_dir: Path
    job_name: str


def parse_options(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Read the command line, then SageMaker's SM_* variables, then defaults."""
    parser = argparse.ArgumentParser(
        description="Train a digit classifier on MNIST.", allow_abbrev=False
    )
    parser.add_argument("--epochs", type=_positive, default=2)
    batch = parser.add_mutually_exclusive_group()
    batch.add_argument(
        "--batch-size",
        type=_positive,
        help="images per step over ALL replicas (default: the reference batch size)",
    )
    batch.add_argument(
        "--batch-size-per-rank", type=_positive, help="instead: images per step and replica"
    )
    parser.add_argument(
        "--learning-rate", type=float, default=0.01, help="peak rate at the reference batch size"
    )
    parser.add_argument(
        "--reference-batch-size",
        type=_positive,
        default=256,
        help="global batch the rate was chosen for",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--log-every", type=_positive, default=20, help="steps between two lines of metrics"
    )
    parser.add_argument(
        "--checkpoint-every", type=_positive, default=100, help="steps between two checkpoints"
    )
    for name, variable in (
        ("--train-dir", "SM_CHANNEL_TRAIN"),
        ("--test-dir", "SM_CHANNEL_TEST"),
        ("--model-dir", "SM_MODEL_DIR"),
    ):
        parser.add_argument(
            name,
            type=Path,
            default=environ.get(variable),
            required=variable not in environ,
            help=f"default: ${variable}",
        )
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        help="default: checkpoints next to the model, in a job /opt/ml/checkpoints",
    )
    parser.add_argument(
        "--model_dir",
        dest="sdk_model_dir",
        help="what SageMaker's SDK adds to TensorFlow jobs, an S3 URI; not used",
    )
    values = vars(parser.parse_args(arguments))
    del values["sdk_model_dir"]
    values["checkpoint_dir"] = (
        values["checkpoint_dir"] or values["model_dir"].parent / "checkpoints"
    )
    return Options(**values, job_name=environ.get("TRAINING_JOB_NAME", "local"))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


@dataclass(frozen=True)
class Plan:
    """The run's arithmetic for a number of replicas.

    Raises ValueError if they cannot share the global batch evenly.
    """

    options: Options
    images: int
    """Training images."""
    replicas: int
    """Copies of the network that compute one step together."""

    def __post_init__(self) -> None:
        if self.global_batch % self.replicas:
            raise ValueError(
                f"global batch size {self.global_batch} is not divisible by the world size"
                f" {self.replicas}"
            )
        if self.global_batch > self.images:
            raise ValueError(
                f"global batch size {self.global_batch} is larger than the training set"
                f" ({self.images} images)"
            )

    @property
    def seed(self) -> int:
        """Decides the first weights and the order of the images."""
        return self.options.seed

    @property
    def global_batch(self) -> int:
        """Images per optimiser step over all replicas."""
        options = self.options
        per_rank = options.batch_size_per_rank
        return (
            per_rank * self.replicas
            if per_rank
            else options.batch_size or options.reference_batch_size
        )

    @property
    def replica_batch(self) -> int:
        """Images per step of one replica."""
        return self.global_batch // self.replicas

    @property
    def steps_per_epoch(self) -> int:
        """Steps over whole global batches.

        An uneven last batch would weigh its images differently on each replica.
        """
        return self.images // self.global_batch

    def looks(self, step: int) -> bool:
        """Return whether the loss after `step` (from 1) of an epoch is used.

        It is printed, and looked at before a checkpoint is written.
        """
        options = self.options
        return (
            step % options.log_every == 0
            or step % options.checkpoint_every == 0
            or step == self.steps_per_epoch
        )

    def epochs(self, done: int) -> Iterator[tuple[int, int]]:
        """Yield each epoch (from 1) that is not tested yet after `done` steps, with its own steps
        done.
        """
        first = max(1, math.ceil(done / self.steps_per_epoch))
        for epoch in range(first, self.options.epochs + 1):
            yield epoch, max(0, done - (epoch - 1) * self.steps_per_epoch)

    @property
    def peak_learning_rate(self) -> float:
        """Linear scaling (Goyal et al., arXiv 1706.02677) of a rate chosen for the reference batch.

        More replicas at the same global batch change nothing; more at the same batch per replica
        raise the rate. This is what `learning_rate * size()` does in the documentation's examples,
        whose batch size is that of one replica.
        """
        return self.options.learning_rate * self.global_batch / self.options.reference_batch_size

    def learning_rate(self, done: int) -> float:
        """Return the rate of the step after `done` steps.

        It warms up along a cosine from a 25th of the peak, then falls to almost nothing.
        """
        progress = done / (self.options.epochs * self.steps_per_epoch)
        peak = self.peak_learning_rate
        if progress < WARM_UP_SHARE:
            start, end, share = peak / 25, peak, progress / WARM_UP_SHARE
        else:
            start, end, share = (
                peak,
                peak / 250_000,
                (progress - WARM_UP_SHARE) / (1 - WARM_UP_SHARE),
            )
        return end + (start - end) * (1 + math.cos(math.pi * share)) / 2

    @property
    def learning_rates(self) -> list[float]:
        """The rate of every step of the run."""
        return [
            self.learning_rate(done) for done in range(self.options.epochs * self.steps_per_epoch)
        ]

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that decide what is learned.

        model.json has them, and a checkpoint must share them with the run that resumes from it.
        """
        return {
            "epochs": self.options.epochs,
            "batch_size": self.global_batch,
            "learning_rate": self.peak_learning_rate,
            "seed": self.seed,
            "images": self.images,
        }
