"""Train a language model on a folder of text with any number of ranks.

    python train.py --train-dir text/train --model-dir model
    torchrun --nproc_per_node 2 train.py --sharding fsdp ...

The batch size is the *global* one: at equal settings, 1 rank and N ranks, and every way to shard,
give the same loss curve. Rank 0 prints the metrics that SageMaker's metric definitions look for,
and saves the model.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from checkpoint import Position, Store
from common.archive import METADATA_FILE
from common.options import parse_run, positive, positive_number
from common.precision import computes_bf16
from common.ranks import Ranks, joined
from common.served import complete_model
from common.stopping import EXIT_CODE, StopRequest
from config import MAX_DEPTH, Config
from data import Corpus
from model import CONFIG_FILE, WEIGHTS_FILE, save
from sharding import PRECISIONS, WAYS, Plan, Spread, local, spread
from speed import Stopwatch, flops_per_token, goodput, peak_flops

BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
"""Both are Llama 2's (arXiv 2307.09288, section 2.2)."""
WARM_UP_SHARE = 0.05
AGREED_EVERY_S = 5.0
"""The ranks ask each other for a SIGTERM at least so often, if a step is not longer: torchrun kills
them 30 s after it, SageMaker 120 s.
"""
SERVED_FILES = ("config.py", "inference.py", "model.py")


def parse_options(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Read the command line, then SageMaker's SM_* variables, then defaults."""
    parser = argparse.ArgumentParser(description="Train a language model.", allow_abbrev=False)
    add = parser.add_argument
    add("--depth", type=positive, default=2, help=f"layers, 1 to {MAX_DEPTH}: sets all sizes")
    add("--context", type=positive, default=256, help="tokens that the model looks back")
    add("--batch-size", type=positive, default=32, help="sequences per step over ALL ranks")
    add("--steps", type=positive, default=1000)
    add("--learning-rate", type=positive_number, default=0.002, help="the highest one")
    add("--sharding", choices=WAYS, default="ddp")
    add("--shard-size", type=int, default=0, help="ranks in a group of hsdp (0: those of a host)")
    add(
        "--precision",
        choices=PRECISIONS,
        default="auto",
        help="auto: bf16 where every device has instructions for it, else float32",
    )
    add("--accumulation", type=positive, default=1, help="passes of a step")
    for name, default, effect in (
        ("--checkpointing", False, "compute layers again in backward, for less memory"),
        ("--compile", None, "compile the model; default: on GPUs"),
    ):
        # a hyperparameter of SageMaker has a value
        add(name, type=_switch, nargs="?", const=True, default=default, help=effect)
    add("--backend", choices=("auto", "smddp", "nccl", "gloo"), default="auto")
    add("--profile-steps", type=positive, default=0, help="print the parts of so many steps")
    options = parse_run(
        parser, arguments, environ, without=("--test-dir",), log_every=10, checkpoint_every=200
    )
    if options.profile_steps >= options.steps:
        parser.error(
            f"--profile-steps {options.profile_steps} is not below --steps {options.steps}:"
            " the first step is not measured"
        )
    return options


def _switch(text: str) -> bool:
    switches = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in switches:
        raise argparse.ArgumentTypeError(f"{text} is neither true nor false")
    return switches[text.lower()]


def sequences_per_pass(options: argparse.Namespace, world_size: int) -> int:
    """Return the sequences that a rank computes at a time.

    Raise ValueError if the batch does not divide.
    """
    passes = world_size * options.accumulation
    if options.batch_size % passes:
        raise ValueError(
            f"--batch-size {options.batch_size} is not divisible by {world_size} ranks times"
            f" --accumulation {options.accumulation}"
        )
    return int(options.batch_size // passes)


@dataclass
class Run:
    """The objects that one rank works with."""

    options: argparse.Namespace
    ranks: Ranks
    corpus: Corpus
    config: Config
    spread: Spread
    optimizer: torch.optim.Optimizer
    store: Store
    stop: StopRequest
    stopwatch: Stopwatch
    peak_flops: float
    """Of one rank, per second."""


@dataclass
class Clock:
    """How far the run is, by what the ranks agreed on at the last line of metrics."""

    position: Position
    started_at: float
    logged_at: float
    held_s: float = 0.0
    step_s: float = math.inf
    """Rank 0's, which all ranks go by."""

    def is_due(self, step: int) -> bool:
        """Return whether so many steps are over that the ranks should hear of a SIGTERM again."""
        return (step + 1 - self.position.step) * self.step_s > AGREED_EVERY_S


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run one rank, from joining the job to leaving it."""
    started_at = time.time()
    options = parse_options(arguments, environ)
    stop = StopRequest()
    with joined(options.backend, environ) as ranks:
        finished = learn(options, ranks, stop, started_at)
    if not finished:
        sys.exit(EXIT_CODE)


def learn(options: argparse.Namespace, ranks: Ranks, stop: StopRequest, started_at: float) -> bool:
    """Go on from the newest checkpoint to the end, and save the model. Return False if the job was
    asked to stop first.

    What this makes is gone when it returns, as `joined` asks.
    """
    run = set_up(options, ranks, stop)
    position = run.store.read()
    if position.step:
        ranks.say(f"resumed at step={position.step} from {options.checkpoint_dir}")
    else:
        position = Position(first_started_at=started_at)
    finished = train(run, position)
    if finished:
        save_model(run)
    # No rank leaves before the model is saved: a launcher ends the others when one has left.
    ranks.barrier()
    return finished


def set_up(options: argparse.Namespace, ranks: Ranks, stop: StopRequest) -> Run:
    """Read the text and make the model, the same on every rank because the seed is the same."""
    sequences_per_pass(options, ranks.world_size)
    on_gpu = ranks.device.type == "cuda"
    if options.precision == "auto":
        (able,) = ranks.sum(float(computes_bf16(ranks.device)))
        options.precision = "bf16" if able == ranks.world_size else "float32"
    if options.compile is None:  # as `--precision auto` is bf16 there
        options.compile = on_gpu
    if on_gpu:  # TF32, where something is computed in float32
        torch.set_float32_matmul_precision("high")
    config = Config.of_depth(options.depth, options.context)
    plan = Plan(
        options.sharding,
        options.precision,
        options.checkpointing,
        options.compile,
        options.shard_size,
    )
    model = spread(config, options.seed, plan, ranks)
    optimizer = new_optimizer(model, options.learning_rate)
    corpus = Corpus.read(options.train_dir, options.context, options.seed)
    peak, source = peak_flops(ranks.device, options.precision)
    run = Run(
        options=options,
        ranks=ranks,
        corpus=corpus,
        config=config,
        spread=model,
        optimizer=optimizer,
        store=Store(
            options.checkpoint_dir, ranks, identity(options, corpus), model.model, optimizer
        ),
        stop=stop,
        stopwatch=Stopwatch(ranks.device, options.profile_steps, ranks.say),
        peak_flops=peak,
    )
    ranks.say(
        f"backend={ranks.backend} device={ranks.device} world_size={ranks.world_size}"
        f" sharding={options.sharding} precision={options.precision} compile={options.compile}"
        f" parameters={sum(each.numel() for each in model.model.parameters())}"
        f" sequences={corpus.sequences} peak_flops_per_rank={peak:.3g} ({source})"
    )
    return run


def identity(options: argparse.Namespace, corpus: Corpus) -> dict[str, Any]:
    """Return the settings that a checkpoint must share with the run that goes on from it.

    The number of ranks, and how they share the work, are not among them.
    """
    names = ("depth", "context", "batch_size", "steps", "learning_rate", "precision", "seed")
    return {name: getattr(options, name) for name in names} | {"text_sha256": corpus.sha256}


def new_optimizer(model: Spread, learning_rate: float) -> torch.optim.Optimizer:
    """Return AdamW, which leaves the norms' scales out of weight decay."""
    weights = list(model.model.parameters())
    groups = [
        {"params": [each for each in weights if each.ndim > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [each for each in weights if each.ndim == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=BETAS, fused=True)


def train(run: Run, position: Position) -> bool:
    """Train from `position` to the end. Return False if the job was asked to stop first."""
    options, now = run.options, time.monotonic()
    clock = Clock(position, now, now)
    step = position.step
    while step < options.steps:
        run.stopwatch.begin_step()
        set_learning_rate(run, step)
        loss = train_step(run, step)
        step += 1
        last = step == options.steps
        checkpoint_due = last or step % options.checkpoint_every == 0
        if step == position.step + 1:
            say_bytes(run)
        if not (checkpoint_due or step % options.log_every == 0 or clock.is_due(step)):
            continue
        # The only points where the ranks agree on loss, time and stopping, so that no step pays
        # for it.
        stopped = report(run, step, loss, clock)
        if checkpoint_due or stopped:
            run.store.write(clock.position)
            run.stopwatch.mark("checkpoint")
        if stopped:
            run.store.finish()
            folder = options.checkpoint_dir
            run.ranks.say(f"stopped on SIGTERM at step={step}; the checkpoint is in {folder}")
            return False
    run.stopwatch.begin_step()
    run.store.finish()
    return True


def train_step(run: Run, step: int) -> torch.Tensor:
    """Compute step `step` (from 0) and return the mean loss of this rank's sequences: not a number,
    if the gradients are none, because then the weights are none any more, or were not changed.
    """
    options, ranks = run.options, run.ranks
    count = sequences_per_pass(options, ranks.world_size)
    first = step * options.batch_size + ranks.rank * count * options.accumulation
    total = torch.zeros((), dtype=run.spread.plan.dtype, device=ranks.device)
    run.optimizer.zero_grad(set_to_none=True)
    for index in range(options.accumulation):
        # both before forward is launched: a copy of pageable memory waits until the GPU is idle
        tokens, targets = (
            each.contiguous().pin_memory().to(ranks.device, non_blocking=True)
            if ranks.device.type == "cuda"
            else each
            for each in run.corpus.batch(first + index * count, count)
        )
        run.stopwatch.mark("data")
        last = index == options.accumulation - 1
        with run.spread.pass_of_step(last=last):
            with run.spread.autocast():
                loss = run.spread.module(tokens, targets)
            run.stopwatch.mark("forward")
            (loss / options.accumulation).backward()
        total += loss.detach() / options.accumulation
        run.stopwatch.mark("backward")
    norm = run.spread.step(run.optimizer)
    run.stopwatch.mark("optimizer")
    return total.where(norm.isfinite(), math.nan)


def set_learning_rate(run: Run, step: int) -> None:
    """Set the rate of step `step` (from 0); there is no scheduler to resume."""
    options = run.options
    for group in run.optimizer.param_groups:
        group["lr"] = options.learning_rate * cosine(step / options.steps)


def cosine(progress: float) -> float:
    """Return the share of the highest rate at `progress` (0 to 1).

    It warms up on a straight line, then falls to 0 along a cosine (Loshchilov and Hutter, arXiv
    1608.03983).
    """
    if progress < WARM_UP_SHARE:
        return 0.05 + 0.95 * progress / WARM_UP_SHARE
    return (1 + math.cos(math.pi * (progress - WARM_UP_SHARE) / (1 - WARM_UP_SHARE))) / 2


def report(run: Run, step: int, loss: torch.Tensor, clock: Clock) -> bool:
    """Print the global batch's loss, and return whether any rank was told to stop.

    Raise ValueError on all ranks together if the loss is not a number any more.
    """
    options, ranks = run.options, run.ranks
    mine = float(loss)  # waits for the device
    now = time.monotonic()
    took_s = now - clock.logged_at
    total, stops, written, first_took_s = ranks.sum(
        mine,
        float(run.stop.received),
        float(run.store.is_written),
        took_s if ranks.is_first else 0.0,
    )
    mean = total / ranks.world_size
    held_s = run.store.held_s
    before = clock.position
    productive_s = before.productive_s + took_s - (held_s - clock.held_s)
    run.stopwatch.mark("metrics")
    if written == ranks.world_size or not math.isfinite(mean):
        run.store.finish()
    run.stopwatch.mark("checkpoint")
    if not math.isfinite(mean):
        raise ValueError(
            f"the loss is {mean} at step {step}: try a smaller --learning-rate, with another"
            " --checkpoint-dir"
        )
    tokens = (step - before.step) * options.batch_size * options.context
    rate = tokens / took_s
    used = rate * flops_per_token(run.config) / (run.peak_flops * ranks.world_size)
    digits = 15 if options.precision == "float64" else 6
    ranks.say(
        f"step={step}/{options.steps} train_loss={mean:.{digits}f}"
        f" learning_rate={run.optimizer.param_groups[0]['lr']:.6f} tokens_per_second={rate:.1f}"
        f" mfu={used:.4f} goodput={goodput(productive_s, before.first_started_at):.4f}"
        f" checkpoint_held_s={held_s:.3f} elapsed_s={now - clock.started_at:.1f}"
        f" world_size={ranks.world_size}"
    )
    clock.step_s = first_took_s / (step - before.step)
    clock.position = Position(step, before.first_started_at, productive_s)
    clock.logged_at, clock.held_s = now, held_s
    return bool(stops)


def say_bytes(run: Run) -> None:
    """Print what rank 0 keeps of the model, after a step."""
    weights, states = list(run.spread.model.parameters()), run.optimizer.state.values()
    kept = {
        "weights": weights,
        "gradients": [weight.grad for weight in weights],
        "optimizer": [state[name] for state in states for name in ("exp_avg", "exp_avg_sq")],
    }
    sizes = {name: sum(local(each).nbytes for each in tensors) for name, tensors in kept.items()}
    run.ranks.say("kept by a rank: " + " ".join(f"{name}_bytes={sizes[name]}" for name in sizes))


def save_model(run: Run) -> None:
    """Write weights, settings and the code that serves them.

    SageMaker packs the folder into model.tar.gz.
    """
    weights = run.spread.whole_weights()
    options, ranks = run.options, run.ranks
    if not ranks.is_first:
        return
    for name in (CONFIG_FILE, WEIGHTS_FILE, METADATA_FILE):  # of an earlier run
        (options.model_dir / name).unlink(missing_ok=True)
    if options.precision == "bf16":  # a server computes in it too
        weights = {name: weight.bfloat16() for name, weight in weights.items()}
    save(run.config, weights, options.model_dir)
    metadata = {
        **run.store.identity,
        "training_job_name": options.job_name,
        "backend": ranks.backend,
        "world_size": ranks.world_size,
        "plan": asdict(run.spread.plan),
        "torch": torch.__version__,
    }
    complete_model(options.model_dir, metadata, Path(__file__).parent, SERVED_FILES)
    ranks.say(f"saved the model in {options.model_dir}")


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
