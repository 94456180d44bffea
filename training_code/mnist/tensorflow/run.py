"""A run: its options, its steps and learning rates, and the lines that it prints."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.options import global_batch, positive

REFERENCE_BATCH = 256
"""The global batch that the learning rate is chosen for."""
WARM_UP_SHARE = 0.3


def parse_options(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Read the command line, then SageMaker's SM_* variables, then defaults."""
    parser = argparse.ArgumentParser(description="Train on MNIST.", allow_abbrev=False)
    add = parser.add_argument
    add("--epochs", type=positive, default=2)
    add("--batch-size", type=positive, default=REFERENCE_BATCH, help="images of ALL replicas")
    add("--learning-rate", type=float, default=0.01, help=f"peak rate at batch {REFERENCE_BATCH}")
    add("--seed", type=int, default=1)
    add("--log-every", type=positive, default=20, help="steps between two lines of metrics")
    add("--checkpoint-every", type=positive, default=100, help="steps between two checkpoints")
    for name, variable in (
        ("--train-dir", "SM_CHANNEL_TRAIN"),
        ("--test-dir", "SM_CHANNEL_TEST"),
        ("--model-dir", "SM_MODEL_DIR"),
    ):
        default = environ.get(variable)
        add(name, type=Path, default=default, required=default is None, help=f"${variable}")
    add("--checkpoint-dir", type=Path, help="default: next to the model, as SageMaker has it")
    add("--model_dir", dest="unused", help="an S3 URI that SageMaker's SDK adds")
    options = parser.parse_args(arguments)
    options.checkpoint_dir = options.checkpoint_dir or options.model_dir.parent / "checkpoints"
    options.job_name = environ.get("TRAINING_JOB_NAME", "local")
    return options


class Run:
    """The arithmetic of a run, and what rank 0 prints of it."""

    def __init__(self, options: argparse.Namespace, images: int, way: Any) -> None:
        """`images` is the size of the training set, `way` an Alone of train.py.

        Raise ValueError if the replicas cannot share each global batch evenly.
        """
        batch = global_batch(options.batch_size, None, way.replicas, images)
        self.options = options
        self.replica_batch = batch // way.replicas
        # Whole batches: an uneven last one would weigh its images differently on each replica.
        self.steps_per_epoch = images // batch
        # Linear scaling (Goyal et al., arXiv 1706.02677), as `learning_rate * size()` in the
        # libraries' examples, whose batch size is that of one replica.
        rate = options.learning_rate * batch / REFERENCE_BATCH
        self.learning_rates = list(one_cycle(rate, options.epochs * self.steps_per_epoch))
        # What decides what is learned: a checkpoint must share it with the run that resumes.
        self.identity = {
            "epochs": options.epochs,
            "batch_size": batch,
            "learning_rate": rate,
            "seed": options.seed,
            "images": images,
        }
        self._strategy, self._printing = way.name, way.rank == 0
        self._world_size = max(way.replicas, way.parts.get("workers", 0))
        self._started_at = self._since = time.monotonic()
        self._since_step = 0
        self._accuracy = 0.0
        self.say(f"strategy={way.name} world_size={self._world_size} global_batch={batch}")
        self.say(" ".join(f"{name}={count}" for name, count in way.parts.items()))

    def epochs(self, done: int) -> Iterator[tuple[int, int]]:
        """Yield each epoch (from 1) that is not tested yet after `done` steps, with its own steps
        done. Print where a run continues.
        """
        self._since_step = done
        if done:
            epoch, step = divmod(done - 1, self.steps_per_epoch)
            folder = self.options.checkpoint_dir
            self.say(f"resumed at epoch={epoch + 1} step={step + 1} from {folder}")
        for epoch in range(max(1, math.ceil(done / self.steps_per_epoch)), self.options.epochs + 1):
            yield epoch, max(0, done - (epoch - 1) * self.steps_per_epoch)

    def looks(self, step: int) -> bool:
        """Return whether the loss after `step` (from 1) of an epoch is waited for and printed.

        Before each checkpoint too: what is not finite is not written.
        """
        return self.writes(step) or not step % self.options.log_every

    def writes(self, step: int) -> bool:
        """Return whether a checkpoint is written after `step` (from 1) of an epoch."""
        return step == self.steps_per_epoch or not step % self.options.checkpoint_every

    def say(self, line: str) -> None:
        """Print once per job."""
        if self._printing:
            print(line, flush=True)

    def trained(self, epoch: int, step: int, loss: float) -> None:
        """Print the loss of a step. Raise ValueError if it is not a number any more."""
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss is {loss} at epoch {epoch} step {step}: try a smaller --learning-rate"
            )
        now, done = time.monotonic(), (epoch - 1) * self.steps_per_epoch + step
        speed = (done - self._since_step) * self.options.batch_size / (now - self._since)
        self._since, self._since_step = now, done
        self.say(
            f"epoch={epoch} step={step}/{self.steps_per_epoch} train_loss={loss:.6f}"
            f" learning_rate={self.learning_rates[done - 1]:.6f} images_per_second={speed:.1f}"
            f" elapsed_s={now - self._started_at:.1f} world_size={self._world_size}"
        )

    def tested(self, epoch: int, sums: Any, images: int) -> None:
        """Print the result of `model.test_sums` over all `images` of the test set."""
        loss, self._accuracy = float(sums[0]) / images, float(sums[1]) / images
        self._since = time.monotonic()
        self.say(
            f"epoch={epoch} test_loss={loss:.6f} test_accuracy={self._accuracy:.4f}"
            f" elapsed_s={self._since - self._started_at:.1f}"
        )

    def metadata(self) -> dict[str, Any]:
        """Return what model.json says about the run that ends here."""
        return {
            **self.identity,
            "training_job_name": self.options.job_name,
            "strategy": self._strategy,
            "world_size": self._world_size,
            "test_accuracy": self._accuracy,
        }


def one_cycle(peak: float, steps: int) -> Iterator[float]:
    """Yield the rate of each step: up from a 25th of the peak, then down to almost nothing, both
    along a cosine.
    """
    for share in (done / steps for done in range(steps)):
        if share < WARM_UP_SHARE:
            start, end, part = peak / 25, peak, share / WARM_UP_SHARE
        else:
            start, end = peak, peak / 250_000
            part = (share - WARM_UP_SHARE) / (1 - WARM_UP_SHARE)
        yield end + (start - end) * (1 + math.cos(math.pi * part)) / 2
