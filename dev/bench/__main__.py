"""Measure Shoal and its peers.

`python -m dev.bench quick|full [--only PART] [--rounds N] [--despite-noise] [--out FOLDER]`

Exit codes: 0 measured; 1 a contender failed; 2 wrong usage; 3 the machine is too noisy, and there
is no report.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dev.bench import bandwidth, language, local, time_to_accuracy, training
from dev.bench.interleave import Result, interleave
from dev.bench.machine import REPOSITORY
from dev.bench.noise import Gauge, TooNoisyError, cores
from dev.bench.processes import RunFailedError, end_on_sigterm
from dev.bench.report import Column, Comparison

PARTS = ("training", "scaling", "accuracy", "bandwidth", "language", "local")


@dataclass(frozen=True)
class Plan:
    """How thorough a bench is."""

    rounds: int
    jobs: int
    """Rounds of the scaling; each of its jobs has many phases."""
    seeds: int
    length: training.Length
    phases: training.Phases
    language: language.Length
    local: local.Length
    contenders: Sequence[str] | None = None
    scaling: Sequence[str] | None = None


QUICK = Plan(
    rounds=2,
    jobs=1,
    seeds=2,
    length=training.QUICK_LENGTH,
    phases=training.QUICK_PHASES,
    language=language.QUICK_LENGTH,
    local=local.QUICK_LENGTH,
    contenders=training.QUICK,
    scaling=training.QUICK_SCALING,
)
FULL = Plan(
    rounds=3,
    jobs=3,
    seeds=10,
    length=training.FULL_LENGTH,
    phases=training.FULL_PHASES,
    language=language.FULL_LENGTH,
    local=local.FULL_LENGTH,
)


def main(arguments: Sequence[str]) -> int:
    """Run the parts that the arguments name; return the exit code."""
    options = _parse(arguments)
    if len(cores()) < training.RANKS:
        print(
            f"bench: needs {training.RANKS} cores, this process may use {len(cores())}",
            file=sys.stderr,
        )
        return 2
    end_on_sigterm()
    try:
        plan = QUICK if options.plan == "quick" else FULL
        _run(
            replace(plan, rounds=options.rounds or plan.rounds, jobs=options.rounds or plan.jobs),
            options,
        )
    except TooNoisyError as error:
        print(f"bench: no report: {error}", file=sys.stderr)
        return 3
    except RunFailedError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m dev.bench", description="Measure Shoal and its peers."
    )
    parser.add_argument("plan", choices=("quick", "full"))
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="part of the bench (default: all)"
    )
    parser.add_argument(
        "--rounds", type=int, help="of training, scaling and bandwidth; default: the plan's"
    )
    parser.add_argument(
        "--despite-noise",
        action="store_true",
        help="report although the machine is busy; the report says so",
    )
    parser.add_argument(
        "--out", type=Path, default=REPOSITORY / "bench-out", help="folder of the reports"
    )
    options = parser.parse_args(arguments)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds takes a number from 1")
    return options


def _run(plan: Plan, options: argparse.Namespace) -> None:
    parts, started_at = options.only or PARTS, time.monotonic()
    gauge, warm = Gauge(), set[str]()
    for part, compare in (
        ("bandwidth", _bandwidth),
        ("accuracy", _accuracy),
        ("scaling", _scaling),
        ("training", _training),
        ("language", _language),
        ("local", _local),
    ):
        if part in parts:
            comparison = compare(plan, gauge, warm, options.despite_noise)
            comparison.write(options.out)
            print(f"\n{comparison.table()}\n", flush=True)
    print(f"reports are in {options.out}, after {time.monotonic() - started_at:.0f} s")


def _training(plan: Plan, gauge: Gauge, warm: set[str], despite_noise: bool) -> Comparison:
    contenders = training.contenders(plan.contenders, plan.length)
    result = interleave(
        contenders, plan.rounds, gauge, warm=warm, despite_noise=despite_noise, say=_print_line
    )
    _add_efficiency(result)
    columns = [
        Column("images/s", "images_per_s"),
        Column("over DDP gloo", "images_per_s", training.DDP, digits=2),
        Column("test accuracy", "accuracy", digits=4),
    ]
    if any("efficiency" in sample.metrics for sample in result.samples):
        columns.append(Column("efficiency at 2, separate processes", "efficiency", digits=3))
    title = (
        "Training MNIST with conv 32 - conv 64 - pool - fc 128 - fc 10, batch 64 per rank,"
        f" {plan.length.steps} steps"
    )
    return Comparison("training", title, result, [one.name for one in contenders], columns)


def _scaling(plan: Plan, gauge: Gauge, warm: set[str], despite_noise: bool) -> Comparison:
    contenders = training.scaling(plan.scaling, plan.phases)
    result = interleave(
        contenders,
        plan.jobs,
        gauge,
        warm_up=0,
        warm=warm,
        despite_noise=despite_noise,
        say=_print_line,
    )
    columns = [
        Column("efficiency at 2", "efficiency", digits=3),
        Column("of two that do not communicate", "efficiency_apart", digits=3),
        Column("together over apart", "over_apart", digits=3),
        Column("a step together, ms", "together_ms", digits=1),
        Column("apart, ms", "apart_ms", digits=1),
        Column("alone, ms", "alone_ms", digits=1),
    ]
    title = (
        f"Two ranks against each of them alone, phases of {plan.phases.steps} steps in turn within"
        f" one job, {plan.phases.cycles} cycles"
    )
    return Comparison("scaling", title, result, [one.name for one in contenders], columns)


def _add_efficiency(result: Result) -> None:
    """Add the efficiency of TensorFlow's strategies: images/s of 2 over twice that of one process,
    by round.

    `_scaling` measures the others.
    """
    pairs = dict.fromkeys((training.TF_MIRRORED, training.TF_WORKERS), training.TF_PLAIN)
    alone = {
        (sample.contender, sample.round): float(sample.metrics["images_per_s"])
        for sample in result.samples
    }
    for sample in result.samples:
        base = alone.get((pairs.get(sample.contender, ""), sample.round))
        if base:
            sample.metrics["efficiency"] = float(sample.metrics["images_per_s"]) / (2 * base)


def _accuracy(plan: Plan, gauge: Gauge, warm: set[str], despite_noise: bool) -> Comparison:
    result = interleave(
        [time_to_accuracy.shipped()],
        plan.seeds,
        gauge,
        warm_up=0,
        warm=warm,
        despite_noise=despite_noise,
        say=_print_line,
    )
    ten_times = 10 * result.figure(time_to_accuracy.NAME, "process_s").median
    contenders = [
        time_to_accuracy.example(ten_times)
    ]  # each run is a round, and most of a minute: it is not repeated within one
    example = interleave(
        contenders,
        1,
        gauge,
        warm_up=0,
        warm=warm,
        tries=1,
        despite_noise=despite_noise,
        say=_print_line,
    )
    result.samples += example.samples
    columns = [
        Column("seconds from start to end of the processes", "process_s", digits=2),
        Column("test accuracy", "accuracy", digits=4),
        Column("share of seeds >= 99 %", "reached", digits=1),
    ]
    title = f"Time to 99 %, {plan.seeds} seeds; pytorch/examples is stopped after ten times as long"
    return Comparison("accuracy", title, result, [time_to_accuracy.NAME, training.DDP], columns)


def _bandwidth(plan: Plan, gauge: Gauge, warm: set[str], despite_noise: bool) -> Comparison:
    result = interleave(
        bandwidth.contenders(),
        plan.rounds,
        gauge,
        warm_up=0,
        warm=warm,
        despite_noise=despite_noise,
        say=_print_line,
    )
    sizes = bandwidth.MEGABYTES
    columns = [Column(f"{size} MB, ms", f"all_reduce_{size}_mb_ms", digits=2) for size in sizes]
    columns += [Column(f"memcpy {size} MB, ms", f"memcpy_{size}_mb_ms", digits=2) for size in sizes]
    return Comparison(
        "bandwidth",
        "AllReduce between two ranks of one host",
        result,
        [bandwidth.MPI, bandwidth.GLOO],
        columns,
    )


def _language(plan: Plan, gauge: Gauge, warm: set[str], despite_noise: bool) -> Comparison:
    contenders = [*language.contenders(plan.language), *language.scaling(plan.phases)]
    result = interleave(
        contenders, plan.rounds, gauge, warm=warm, despite_noise=despite_noise, say=_print_line
    )
    peers = (language.DDP, language.FSDP, language.TRAINER, language.LIGHTNING)
    fastest = max(peers, key=lambda name: result.figure(name, "tokens_per_s").median)
    compiled = language.DDP_COMPILED
    columns = [
        Column("tokens/s", "tokens_per_s"),
        Column(f"over {fastest}", "tokens_per_s", fastest, digits=2),
        Column(f"over {compiled}", "tokens_per_s", compiled, digits=2),
        Column("CPU ms a step, both ranks", "cpu_ms", digits=1),
        Column("loss of step 10", "early_loss", digits=4),
        Column("mean loss of the last 50", "late_loss", digits=3),
        Column("efficiency at 2", "efficiency", digits=3),
        Column("of two that do not communicate", "efficiency_apart", digits=3),
        Column("together over apart", "over_apart", digits=3),
    ]
    title = (
        "Training the language demo's model (1.8 M parameters) on 2 ranks, bf16, 8 sequences of 256"
        f" bytes a step, {plan.language.steps} steps; Shoal over smddp's stand-in (MPI) where no"
        " gloo is named, peers over gloo"
    )
    rows, warning = [one.name for one in contenders], language.warning_of(result)
    return Comparison("language", title, result, rows, columns, warning)


def _local(plan: Plan, gauge: Gauge, warm: set[str], despite_noise: bool) -> local.Report:
    return local.measure(plan.local, plan.rounds, gauge, warm, despite_noise, _print_line)


def _print_line(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
