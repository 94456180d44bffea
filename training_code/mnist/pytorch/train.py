"""Train a digit classifier on MNIST with any number of ranks.

    python train.py --train-dir mnist/train --test-dir mnist/test --model-dir model
    torchrun --nproc_per_node 2 train.py ...
    mpirun -np 2 smddprun python -m mpi4py train.py ...        (SageMaker's toolkit, for smddp)

The batch size is the *global* one: at equal settings, 1 rank and N ranks see the same batches in
the same order and give the same loss curve. Rank 0 prints the metrics that SageMaker's metric
definitions look for, and writes all files.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common.quick_torch  # noqa: F401 (before the others)
import checkpoint
import torch
from checkpoint import Position
from common import cpu, fabric, precision
from common.archive import save_code
from common.ranks import Ranks, choose_backend, joined
from common.stopping import EXIT_CODE, StopRequest
from data import Digits, read_test, read_train
from model import NETWORK_VERSION, new_network, prepare, save
from torch.nn import functional

WARM_UP_SHARE = 0.3
BETAS = (0.8, 0.95)
"""Adam's: shorter memories than usual, for a run of some hundred steps.

The comparison is at commit 77a74b74, in docs/lab/2026-11-performance.md.
"""
EVALUATION_BATCH = 1000
PROBED_IMAGES = 64
SERVED_FILES = ("inference.py", "model.py")


@dataclass(frozen=True)
class Options:
    """The settings of a run: runs with equal options (but for folders) give equal models."""

    epochs: float
    batch_size: int | None
    batch_size_per_rank: int | None
    learning_rate: float
    reference_batch_size: int
    label_smoothing: float
    seed: int
    precision: str
    averaging: str
    backend: str
    log_every: int
    checkpoint_every: int
    train_dir: Path
    test_dir: Path
    model_dir: Path
    checkpoint_dir: Path
    job_name: str

    def global_batch(self, world_size: int) -> int:
        """Images per optimiser step over all ranks.

        Raises ValueError if the ranks cannot share them evenly.
        """
        batch = (
            self.batch_size_per_rank * world_size
            if self.batch_size_per_rank
            else self.batch_size or self.reference_batch_size
        )
        if batch % world_size:
            raise ValueError(
                f"global batch size {batch} is not divisible by the world size {world_size}"
            )
        return batch

    def peak_learning_rate(self, world_size: int) -> float:
        """Scale the rate with the batch (Goyal et al., arXiv 1706.02677).

        It was chosen for the reference batch. More ranks at the same global batch change nothing;
        more ranks at the same batch per rank raise the rate.
        """
        return self.learning_rate * self.global_batch(world_size) / self.reference_batch_size


def parse_options(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Read the command line, then SageMaker's SM_* variables, then defaults."""
    parser = argparse.ArgumentParser(
        description="Train a digit classifier on MNIST.", allow_abbrev=False
    )
    parser.add_argument(
        "--epochs", type=_positive_number, default=2.0, help="may end inside of an epoch, like 1.5"
    )
    batch = parser.add_mutually_exclusive_group()
    batch.add_argument(
        "--batch-size",
        type=_positive,
        help="images per step over ALL ranks (default: the reference batch size)",
    )
    batch.add_argument(
        "--batch-size-per-rank", type=_positive, help="instead: images per step and rank"
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
    parser.add_argument(
        "--label-smoothing",
        type=_share,
        default=0.1,
        help="share of the target spread over all classes, 0 to 1",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default="auto",
        help="auto: bf16 where the device computes faster in it",
    )
    parser.add_argument(
        "--averaging",
        choices=("auto", "ddp", "flat"),
        default="auto",
        help=(
            "how gradients are averaged: by DistributedDataParallel, or at the end of the backward"
            " pass (auto: ddp on GPUs, flat on CPUs)"
        ),
    )
    parser.add_argument("--backend", choices=("auto", "smddp", "nccl", "gloo"), default="auto")
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
    values = vars(parser.parse_args(arguments))
    values["checkpoint_dir"] = (
        values["checkpoint_dir"] or values["model_dir"].parent / "checkpoints"
    )
    return Options(**values, job_name=environ.get("TRAINING_JOB_NAME", "local"))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def _positive_number(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


@dataclass
class Run:
    """The objects that one rank works with."""

    options: Options
    ranks: Ranks
    train: Digits
    test: Digits
    precision: str
    """fp32 or bf16: "auto" is decided."""
    network: torch.nn.Module
    parallel: torch.nn.Module
    """The network with its gradients averaged over the ranks; they share the weights."""
    optimizer: torch.optim.Optimizer
    stop: StopRequest
    started_at: float

    @property
    def global_batch(self) -> int:
        """Images per step over all ranks."""
        return self.options.global_batch(self.ranks.world_size)

    @property
    def steps_per_epoch(self) -> int:
        """Steps over whole global batches.

        An uneven last batch would weigh its images differently on each rank.
        """
        return len(self.train) // self.global_batch

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        return max(1, round(self.options.epochs * self.steps_per_epoch))

    def last_step(self, epoch: int) -> int:
        """Return the last step of an epoch; the run may end within its last epoch."""
        return min(self.steps_per_epoch, self.total_steps - (epoch - 1) * self.steps_per_epoch)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a checkpoint must share with the run that resumes from it.

        The number of ranks is not among them.
        """
        options = self.options
        return {
            "epochs": options.epochs,
            "batch_size": self.global_batch,
            "learning_rate": options.peak_learning_rate(self.ranks.world_size),
            "label_smoothing": options.label_smoothing,
            "seed": options.seed,
            "precision": self.precision,
            "images": len(self.train),
            "network_version": NETWORK_VERSION,
        }

    def elapsed_s(self) -> float:
        """Return the seconds since this process began to train."""
        return time.monotonic() - self.started_at


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run one rank, from joining the job to leaving it."""
    options = parse_options(arguments, environ)
    fabric.listen(os.environ)
    backend = choose_backend(options.backend, environ)
    probed = fabric.probe(backend, environ)
    with joined(backend, environ) as ranks:
        learn(options, ranks, fabric.prove(ranks, environ, probed))


def learn(options: Options, ranks: Ranks, proof: str) -> None:
    """Go on from a checkpoint to the end, and say which network carries the traffic.

    What this makes is gone when it returns, as `joined` asks.
    """
    run = set_up(options, ranks)
    run.ranks.say(
        f"backend={ranks.backend} device={ranks.device} world_size={ranks.world_size}"
        f" global_batch={run.global_batch}"
    )
    run.ranks.say(proof)
    run.ranks.say(f"processes={ranks.world_size} ranks={ranks.world_size}")
    position = resume(run)
    finish(run, train(run, position))


def set_up(options: Options, ranks: Ranks) -> Run:
    """Read the data and make the network, the same on every rank because the seed is the same."""
    stop = StopRequest()
    torch.manual_seed(options.seed)
    train_digits, test_digits = read_train(options.train_dir), read_test(options.test_dir)
    batch = options.global_batch(ranks.world_size)
    if batch > len(train_digits):
        raise ValueError(
            f"global batch size {batch} is larger than the training set ({len(train_digits)}"
            " images)"
        )
    if ranks.device.type == "cpu":
        cpu.keep_freed_memory()
        cpu.leave_the_compiler_out()
    network = new_network(ranks.device)
    train_digits, test_digits = train_digits.to(ranks.device), test_digits.to(ranks.device)
    count = min(batch // ranks.world_size, PROBED_IMAGES)
    probed = Digits(train_digits.images[:count], train_digits.labels[:count])
    chosen, reason = precision.choose(
        options.precision,
        checkpoint.precision(options.checkpoint_dir),
        ranks,
        network,
        lambda: functional.cross_entropy(network(prepare(probed.images)).float(), probed.labels),
    )
    adam = cpu.Adam if ranks.device.type == "cpu" else torch.optim.Adam
    optimizer = adam(
        network.parameters(),
        lr=options.learning_rate,
        betas=BETAS,
        fused=_has_fused_adam(ranks.device),
    )
    run = Run(
        options=options,
        ranks=ranks,
        train=train_digits,
        test=test_digits,
        precision=chosen,
        network=network,
        parallel=averaged(network, ranks, options.averaging),
        optimizer=optimizer,
        stop=stop,
        started_at=time.monotonic(),
    )
    run.ranks.say(reason)
    return run


def averaged(network: torch.nn.Module, ranks: Ranks, averaging: str) -> torch.nn.Module:
    """Return the network with its gradients averaged over the ranks in backward().

    `averaging` is auto, ddp or flat. Horovod's optimizer averages them itself.
    """
    if ranks.backend == "horovod":
        return network
    if averaging == "flat" or (averaging == "auto" and ranks.device.type == "cpu"):
        if ranks.world_size > 1:
            cpu.average_gradients(network, ranks.all_reduce, ranks.world_size)
        return network
    devices = [ranks.device] if ranks.device.type == "cuda" else None
    return torch.nn.parallel.DistributedDataParallel(
        network, device_ids=devices, gradient_as_bucket_view=True
    )


def _has_fused_adam(device: torch.device) -> bool:
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return device.type == "cuda" or version >= (2, 4)


def resume(run: Run) -> Position:
    """Continue from the checkpoint, if there is one.

    Raise ValueError if the ranks have read different ones: every host has its own copy.
    """
    saved_position = checkpoint.read(
        run.options.checkpoint_dir, run.identity, run.network, run.optimizer, run.ranks.device
    )
    position = saved_position or Position(epoch=1, step=0)
    done = (position.epoch - 1) * run.steps_per_epoch + position.step
    if run.ranks.sum(float(done))[0] != done * run.ranks.world_size:
        raise ValueError(
            f"the ranks' checkpoints differ; rank {run.ranks.rank} has epoch {position.epoch} step"
            f" {position.step}"
        )
    if saved_position:
        run.ranks.say(
            f"resumed at epoch={position.epoch} step={position.step} from"
            f" {run.options.checkpoint_dir}"
        )
    return position


def train(run: Run, position: Position) -> float | None:
    """Train from `position` to the end and return the last test accuracy.

    Return None if the job was asked to stop first.
    """
    accuracy = None
    for epoch in range(position.epoch, math.ceil(run.total_steps / run.steps_per_epoch) + 1):
        first_step = position.step if epoch == position.epoch else 0
        if not train_epoch(run, epoch, first_step):
            return None
        accuracy = evaluate(run, epoch)
    return accuracy


def train_epoch(run: Run, epoch: int, first_step: int) -> bool:
    """Train the rest of one epoch.

    Return False if the job was asked to stop; the checkpoint is written then.
    """
    run.parallel.train()
    since, since_step = time.monotonic(), first_step
    for step, (images, labels) in enumerate(batches(run, epoch, first_step), start=first_step + 1):
        set_learning_rate(run, epoch, step)
        loss = train_step(run, images, labels)
        last = step == run.last_step(epoch)
        checkpoint_due = last or step % run.options.checkpoint_every == 0
        if not checkpoint_due and step % run.options.log_every:
            continue
        # The only points where the ranks agree on the loss and on stopping, so that no step pays
        # for it.
        stop = report(run, epoch, step, loss, (step - since_step) / (time.monotonic() - since))
        if checkpoint_due or stop:
            write_checkpoint(run, epoch, step)
        if stop:
            run.ranks.say(
                f"stopped on SIGTERM at epoch={epoch} step={step}; the checkpoint is in"
                f" {run.options.checkpoint_dir}"
            )
            return False
        since, since_step = time.monotonic(), step
    return True


def batches(run: Run, epoch: int, first_step: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield this rank's slice of each global batch of the epoch.

    The order depends on seed and epoch only, so a run can be resumed.
    """
    order = torch.randperm(
        len(run.train),
        generator=torch.Generator().manual_seed(run.options.seed * 1_000_003 + epoch),
    )
    share = run.global_batch // run.ranks.world_size
    for step in range(first_step, run.last_step(epoch)):
        start = step * run.global_batch + run.ranks.rank * share
        indices = order[start : start + share].to(run.ranks.device)
        yield run.train.images[indices], run.train.labels[indices]


def train_step(run: Run, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Run one step and return this rank's mean loss.

    backward() averages the gradients over the ranks.
    """
    run.optimizer.zero_grad()
    with autocast(run):
        logits = run.parallel(prepare(images))
    loss = functional.cross_entropy(
        logits.float(), labels, label_smoothing=run.options.label_smoothing
    )
    loss.backward()
    run.optimizer.step()
    return loss.detach()


def autocast(run: Run) -> torch.autocast:
    """Return the context in which convolutions and products have the run's precision.

    Weights, loss and optimizer stay float32.
    """
    return torch.autocast(
        run.ranks.device.type, dtype=torch.bfloat16, enabled=run.precision == "bf16"
    )


def set_learning_rate(run: Run, epoch: int, step: int) -> None:
    """Set the rate of step `step` (from 1) of an epoch.

    It depends on the position alone, so there is no scheduler to resume.
    """
    done = (epoch - 1) * run.steps_per_epoch + step - 1
    rate = one_cycle(done / run.total_steps, run.options.peak_learning_rate(run.ranks.world_size))
    for group in run.optimizer.param_groups:
        group["lr"] = rate


def one_cycle(progress: float, peak: float) -> float:
    """Return the rate at `progress` (0 to 1).

    It warms up along a cosine from a 25th of the peak, then falls on a straight line to 0.
    """
    if progress < WARM_UP_SHARE:
        return (
            peak / 25 + (peak - peak / 25) * (1 - math.cos(math.pi * progress / WARM_UP_SHARE)) / 2
        )
    return peak * (1 - progress) / (1 - WARM_UP_SHARE)


def report(run: Run, epoch: int, step: int, loss: torch.Tensor, steps_per_second: float) -> bool:
    """Print the global batch's loss, and return whether any rank was told to stop.

    Raise ValueError on all ranks together if the loss is not a number any more.
    """
    total, stops = run.ranks.sum(loss, float(run.stop.received))
    mean: float = total / run.ranks.world_size
    if not math.isfinite(mean):
        raise ValueError(
            f"the loss is {mean} at epoch {epoch} step {step}: try a smaller --learning-rate"
        )
    rate = run.optimizer.param_groups[0]["lr"]
    run.ranks.say(
        f"epoch={epoch} step={step}/{run.steps_per_epoch} train_loss={mean:.6f}"
        f" learning_rate={rate:.6f} images_per_second={steps_per_second * run.global_batch:.1f}"
        f" elapsed_s={run.elapsed_s():.1f} world_size={run.ranks.world_size}"
    )
    return bool(stops)


def write_checkpoint(run: Run, epoch: int, step: int) -> None:
    """Write the state after `step` steps of `epoch`, on rank 0."""
    if run.ranks.is_first:
        checkpoint.write(
            run.options.checkpoint_dir,
            run.identity,
            Position(epoch, step),
            run.network,
            run.optimizer,
        )


def evaluate(run: Run, epoch: int) -> float:
    """Return the test accuracy.

    Every rank tests its share of the images, and the counts are added.
    """
    run.network.eval()
    images = run.test.images[run.ranks.rank :: run.ranks.world_size]
    labels = run.test.labels[run.ranks.rank :: run.ranks.world_size]
    loss = torch.zeros((), device=run.ranks.device)
    correct = torch.zeros((), device=run.ranks.device)
    with torch.inference_mode(), autocast(run):
        for some_images, some_labels in zip(
            images.split(EVALUATION_BATCH), labels.split(EVALUATION_BATCH), strict=True
        ):
            logits = run.network(prepare(some_images)).float()
            loss += functional.cross_entropy(logits, some_labels, reduction="sum")
            correct += (logits.argmax(1) == some_labels).sum()
    loss_sum, correct_sum = run.ranks.sum(loss, correct)
    accuracy: float = correct_sum / len(run.test)
    run.ranks.say(
        f"epoch={epoch} test_loss={loss_sum / len(run.test):.6f} test_accuracy={accuracy:.4f}"
        f" elapsed_s={run.elapsed_s():.1f}"
    )
    return accuracy


def finish(run: Run, accuracy: float | None) -> None:
    """Save the model, or exit without one if the job was told to stop.

    A job that was told to stop has no accuracy and must not look like one that is finished.
    """
    # No rank leaves before the checkpoint is written: a launcher ends the others when one has left.
    run.ranks.barrier()
    if accuracy is None:
        sys.exit(EXIT_CODE)
    save_model(run, accuracy)


def save_model(run: Run, accuracy: float) -> None:
    """Write weights, metadata and the code that serves them.

    SageMaker packs the folder into model.tar.gz.
    """
    if not run.ranks.is_first:
        return
    metadata = {
        **run.identity,
        "training_job_name": run.options.job_name,
        "backend": run.ranks.backend,
        "world_size": run.ranks.world_size,
        "test_accuracy": accuracy,
        "torch": torch.__version__,
    }
    save(run.network, metadata, run.options.model_dir)
    save_code(run.options.model_dir, Path(__file__).parent, SERVED_FILES)
    run.ranks.say(f"saved the model in {run.options.model_dir}")


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
