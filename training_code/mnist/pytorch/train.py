"""Train a digit classifier on MNIST with any number of ranks.

    python train.py --train-dir mnist/train --test-dir mnist/test --model-dir model
    torchrun --nproc_per_node 2 train.py ...
    mpirun -np 2 smddprun python -m mpi4py train.py ...        (SageMaker's toolkit, for smddp)

The batch size is the *global* one: at equal settings, 1 rank and N ranks see the same batches in
the same order and give the same loss curve. Rank 0 prints the metrics that SageMaker's metric
definitions look for, and writes all files. By hand, in the checkout, set PYTHONPATH=training_code.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import common.quick_torch  # noqa: F401 (before the others)
import torch
from common import checkpoint, cpu, precision
from common.averaging import averaged
from common.graphed import graphed, new_rate, set_rate
from common.options import global_batch, parse_run, positive, positive_number, share
from common.ranks import Ranks, joined
from common.stopping import EXIT_CODE, StopRequest
from data import read
from model import NETWORK_VERSION, new_network, prepare, save
from torch.nn import functional
from torch.utils.data import TensorDataset

REFERENCE_BATCH = 256
"""The global batch for which the learning rate was chosen."""
WARM_UP_SHARE = 0.3
BETAS = (0.8, 0.95)
"""Adam's: shorter memories than usual, for a run of some hundred steps (compared at commit
77a74b74, docs/lab/2026-11-performance.md).
"""
EVALUATION_BATCH = 1000


def parse_options(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Read the command line, then SageMaker's SM_* variables, then defaults.

    Runs whose options are equal, folders apart, give equal models.
    """
    parser = argparse.ArgumentParser(description="Train on MNIST.", allow_abbrev=False)
    add = parser.add_argument
    add("--epochs", type=positive_number, default=2.0, help="may end inside of an epoch, like 1.5")
    batch = parser.add_mutually_exclusive_group()
    batch.add_argument("--batch-size", type=positive, default=REFERENCE_BATCH, help="of ALL ranks")
    batch.add_argument("--batch-size-per-rank", type=positive, help="instead: images of each rank")
    add("--learning-rate", type=positive_number, default=0.01, help=f"for batch {REFERENCE_BATCH}")
    add("--label-smoothing", type=share, default=0.1, help="share of the target for all classes")
    add("--precision", choices=("auto", "fp32", "bf16"), default="auto", help="auto: the faster")
    add("--averaging", choices=("auto", "ddp", "flat"), default="auto", help="of the gradients")
    add("--backend", choices=("auto", "smddp", "nccl", "gloo"), default="auto")
    return parse_run(parser, arguments, environ)


@dataclass
class Run:
    """The objects that one rank works with."""

    options: argparse.Namespace
    ranks: Ranks
    train: TensorDataset
    test: TensorDataset
    """Images and labels."""
    global_batch: int
    """Images per optimiser step over all ranks."""
    precision: str
    """fp32 or bf16: "auto" is decided."""
    network: torch.nn.Module
    parallel: torch.nn.Module
    """The network with its gradients averaged over the ranks; they share the weights."""
    optimizer: torch.optim.Optimizer
    stop: StopRequest
    started_at: float

    @property
    def steps_per_epoch(self) -> int:
        """Steps over whole global batches: ranks would weigh those of an uneven one differently."""
        return len(self.train) // self.global_batch

    @property
    def total_steps(self) -> int:
        """Steps of the whole run, which may end within an epoch."""
        epochs: float = self.options.epochs
        return max(1, round(min(epochs * self.steps_per_epoch, sys.maxsize)))

    def position(self, done: int) -> tuple[int, int]:
        """Return epoch and step, both from 1, of the last of `done` steps."""
        epochs, steps = divmod(done - 1, self.steps_per_epoch)
        return epochs + 1, steps + 1

    @property
    def peak_learning_rate(self) -> float:
        """The rate, scaled with the batch (Goyal et al., arXiv 1706.02677)."""
        return float(self.options.learning_rate * self.global_batch / REFERENCE_BATCH)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that a run that resumes must share: the number of ranks is none."""
        return {
            "epochs": self.options.epochs,
            "batch_size": self.global_batch,
            "learning_rate": self.peak_learning_rate,
            "label_smoothing": self.options.label_smoothing,
            "seed": self.options.seed,
            "precision": self.precision,
            "images": len(self.train),
            "network_version": NETWORK_VERSION,
        }

    def autocast(self) -> torch.autocast:
        """Give convolutions and products the precision; weights, loss, optimizer stay float32."""
        is_bf16 = self.precision == "bf16"
        return torch.autocast(self.ranks.device.type, dtype=torch.bfloat16, enabled=is_bf16)

    def elapsed_s(self) -> float:
        """Return the seconds since this process began to train."""
        return time.monotonic() - self.started_at


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run one rank, from joining the job to leaving it."""
    options = parse_options(arguments, environ)
    with joined(options.backend, environ) as ranks:
        learn(options, ranks)


def learn(options: argparse.Namespace, ranks: Ranks) -> None:
    """Go on from a checkpoint to the end.

    What this makes is gone when it returns, as `joined` asks.
    """
    run = set_up(options, ranks)
    finish(run, train(run, resume(run)))


def set_up(options: argparse.Namespace, ranks: Ranks) -> Run:
    """Read the data and make the network, the same on every rank because the seed is the same."""
    stop = StopRequest()
    torch.manual_seed(options.seed)
    digits = read(options.train_dir, "train", ranks.device)
    batch = global_batch(
        options.batch_size, options.batch_size_per_rank, ranks.world_size, len(digits)
    )
    network, adam, is_fused = new_network(ranks.device), torch.optim.Adam, True
    rate = new_rate(ranks)
    is_graphed = isinstance(rate, torch.Tensor)
    if ranks.device.type == "cpu":
        cpu.keep_freed_memory()
        cpu.leave_the_compiler_out()
        adam, is_fused = cpu.Adam, cpu.HAS_FUSED_ADAM
    saved = checkpoint.settings_of(options.checkpoint_dir).get("precision")
    chosen, reason = precision.choose(options.precision, saved, ranks)
    run = Run(
        options=options,
        ranks=ranks,
        train=digits,
        test=read(options.test_dir, "t10k", ranks.device),
        global_batch=batch,
        precision=chosen,
        network=network,
        parallel=network if is_graphed else averaged(network, ranks, options.averaging),
        optimizer=adam(
            network.parameters(), rate, betas=BETAS, fused=is_fused, capturable=is_graphed
        ),
        stop=stop,
        started_at=time.monotonic(),
    )
    ranks.say(reason)
    ranks.say(
        f"backend={ranks.backend} device={ranks.device} world_size={ranks.world_size}"
        f" global_batch={batch} processes={ranks.world_size} ranks={ranks.world_size}"
    )
    return run


def resume(run: Run) -> int:
    """Continue from the checkpoint, if there is one, and return how many steps are done.

    Raise ValueError if the ranks have read different ones: every host has its own copy.
    """
    folder, ranks = run.options.checkpoint_dir, run.ranks
    done = checkpoint.read(folder, run.identity, run.network, run.optimizer, ranks.device)
    if ranks.sum(done)[0] != done * ranks.world_size:
        raise ValueError(f"the ranks' checkpoints differ; rank {ranks.rank} has {done} steps")
    if done:
        epoch, step = run.position(done)
        ranks.say(f"resumed at epoch={epoch} step={step} from {folder}")
    return done


def train(run: Run, done: int) -> float | None:
    """Train after `done` steps to the end, and return the last test accuracy.

    Return None if the job was told to stop first; the checkpoint is written then.
    """
    folder, accuracy = run.options.checkpoint_dir, None
    run.parallel.train()
    step_of = graphed(partial(train_step, run), run.optimizer, run.ranks.say)
    since, since_done = time.monotonic(), done
    for images, labels in batches(run, done):
        set_rate(run.optimizer, one_cycle(done / run.total_steps, run.peak_learning_rate))
        loss = step_of(images, labels)
        done += 1
        epoch, step = run.position(done)
        ends_epoch = step == run.steps_per_epoch or done == run.total_steps
        checkpoint_due = ends_epoch or step % run.options.checkpoint_every == 0
        if not checkpoint_due and step % run.options.log_every:
            continue
        # The only points where the ranks agree on the loss and on stopping, so that no step pays
        # for it.
        steps_per_second = (done - since_done) / (time.monotonic() - since)
        stop = report(run, done, loss, steps_per_second * run.global_batch)
        if (checkpoint_due or stop) and run.ranks.is_first:
            checkpoint.write(folder, run.identity, done, run.network, run.optimizer)
        if stop:
            where = f"epoch={epoch} step={step}; the checkpoint is in {folder}"
            run.ranks.say(f"stopped on SIGTERM at {where}")
            return None
        if ends_epoch:
            accuracy = evaluate(run, epoch)
        since, since_done = time.monotonic(), done
    # None: the checkpoint is that of the last step.
    return evaluate(run, run.position(done)[0]) if accuracy is None else accuracy


def batches(run: Run, done: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield this rank's slice of each global batch after `done` steps.

    The order depends on seed and epoch only, so a run can be resumed.
    """
    count, order = run.global_batch // run.ranks.world_size, None
    for index in range(done, run.total_steps):
        epoch, step = divmod(index, run.steps_per_epoch)
        if order is None or step == 0:
            seed = (run.options.seed * 1_000_003 + epoch + 1) % 2**64
            order = torch.randperm(len(run.train), generator=torch.Generator().manual_seed(seed))
            order = order.to(run.ranks.device)
        start = step * run.global_batch + run.ranks.rank * count
        yield run.train[order[start : start + count]]


def train_step(run: Run, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Run a step and return the mean loss. backward() averages the gradients over the ranks."""
    run.optimizer.zero_grad()
    with run.autocast():
        logits = run.parallel(prepare(images))
    smoothing = run.options.label_smoothing
    loss = functional.cross_entropy(logits.float(), labels, label_smoothing=smoothing)
    loss.backward()
    run.optimizer.step()
    return loss.detach()


def one_cycle(progress: float, peak: float) -> float:
    """Return the rate at `progress` (0 to 1).

    It warms up along a cosine from a 25th of the peak, then falls on a straight line to 0.
    """
    if progress < WARM_UP_SHARE:
        rise = (1 - math.cos(math.pi * progress / WARM_UP_SHARE)) / 2
        return peak / 25 + (peak - peak / 25) * rise
    return peak * (1 - progress) / (1 - WARM_UP_SHARE)


def report(run: Run, done: int, loss: torch.Tensor, images_per_second: float) -> bool:
    """Print the global batch's loss, and return whether any rank was told to stop.

    Raise ValueError on all ranks together if the loss is not a number any more.
    """
    total, stops = run.ranks.sum(loss, run.stop.received)
    mean, (epoch, step) = total / run.ranks.world_size, run.position(done)
    if not math.isfinite(mean):
        raise ValueError(
            f"the loss is {mean} at epoch {epoch} step {step}: try a smaller --learning-rate"
        )
    rate = run.optimizer.param_groups[0]["lr"]
    run.ranks.say(
        f"epoch={epoch} step={step}/{run.steps_per_epoch} train_loss={mean:.6f}"
        f" learning_rate={rate:.6f} images_per_second={images_per_second:.1f}"
        f" elapsed_s={run.elapsed_s():.1f} world_size={run.ranks.world_size}"
    )
    return stops > 0


def evaluate(run: Run, epoch: int) -> float:
    """Return the test accuracy: every rank tests its share, and the counts are added."""
    run.parallel.eval()
    rank, world_size = run.ranks.rank, run.ranks.world_size
    parts = (each[rank::world_size].split(EVALUATION_BATCH) for each in run.test.tensors)
    sums = torch.zeros(2, device=run.ranks.device)
    with torch.inference_mode(), run.autocast():
        for images, labels in zip(*parts, strict=True):
            logits = run.network(prepare(images)).float()
            sums[0] += functional.cross_entropy(logits, labels, reduction="sum")
            sums[1] += (logits.argmax(1) == labels).sum()
    run.parallel.train()
    loss, accuracy = (total / len(run.test) for total in run.ranks.sum(*sums))
    run.ranks.say(
        f"epoch={epoch} test_loss={loss:.6f} test_accuracy={accuracy:.4f}"
        f" elapsed_s={run.elapsed_s():.1f}"
    )
    return accuracy


def finish(run: Run, accuracy: float | None) -> None:
    """Save the model, or exit without one if the job was told to stop.

    SageMaker packs the folder with weights, metadata and the code that serves them.
    """
    # No rank leaves before the checkpoint is written: a launcher ends the others when one has left.
    run.ranks.barrier()
    if accuracy is None:
        sys.exit(EXIT_CODE)
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
    run.ranks.say(f"saved the model in {run.options.model_dir}")


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
