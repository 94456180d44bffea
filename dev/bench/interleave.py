"""Run contenders in turn: A B A B, after a warm-up of each.

A run during which the machine was disturbed is repeated at once. With too few quiet rounds there is
no result but an error.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dev.bench.noise import Gauge, Noise, TooNoisyError

TRIES = 4
"""Number of tries of one run, in its turn.

A round of eight contenders is longer than the quiet spells of a shared machine.
"""
Metrics = dict[str, float]
"""What one run measured, by name with its unit (`images_per_s`, `process_s`)."""


@dataclass(frozen=True)
class Contender:
    """Something to measure: each call is one run, in a fresh process if possible."""

    name: str
    run: Callable[[], Metrics]
    start: str = ""
    """The environment that it starts from; one uncounted run warms up all that share it.

    Empty: shared with none.
    """


@dataclass(frozen=True)
class Sample:
    """One run."""

    contender: str
    round: int
    metrics: Metrics
    noise: Noise


@dataclass(frozen=True)
class Figure:
    """One metric of one contender over the rounds."""

    median: float
    low: float
    high: float
    """With few rounds, minimum and maximum are honest where quartiles would pretend."""
    count: int


@dataclass
class Result:
    """All runs of one comparison."""

    samples: list[Sample] = field(default_factory=list)
    repeated: int = 0
    """Runs that were disturbed, and so repeated in their turn."""
    skipped: int = 0
    """Rounds that were thrown away, because one of their runs stayed disturbed."""

    def of(self, contender: str, metric: str) -> list[float]:
        """Return the values by round."""
        return [
            float(sample.metrics[metric])
            for sample in self.samples
            if sample.contender == contender and metric in sample.metrics
        ]

    def figure(self, contender: str, metric: str) -> Figure:
        """Return median, minimum and maximum."""
        return figure(self.of(contender, metric))

    def ratio(self, metric: str, contender: str, peer: str) -> Figure:
        """Return contender over peer, computed within each round, so that changes between rounds
        cancel.
        """
        return figure(
            [
                ours / theirs
                for ours, theirs in zip(
                    self.of(contender, metric), self.of(peer, metric), strict=True
                )
            ]
        )

    @property
    def is_quiet(self) -> bool:
        """Return whether every run counts; only `despite_noise` lets others in."""
        return all(sample.noise.is_quiet for sample in self.samples)


def figure(values: Sequence[float]) -> Figure:
    """Return median, minimum and maximum of at least one value."""
    return Figure(statistics.median(values), min(values), max(values), len(values))


def interleave(
    contenders: Sequence[Contender],
    rounds: int,
    gauge: Gauge,
    *,
    warm_up: int = 1,
    warm: set[str] | None = None,
    tries: int = TRIES,
    despite_noise: bool = False,
    say: Callable[[str], None] = print,
) -> Result:
    """Run every contender once per round, after `warm_up` uncounted runs of each environment.

    Environments in `warm` need no warm-up; those that ran are added to it.

    A disturbed run is repeated in its turn, `tries` times in all, whatever it measured. If it stays
    disturbed, the whole round is thrown away, so that ratios stay within a round. After more
    skipped rounds than `rounds` (at least 3) TooNoisyError is raised. With `despite_noise` every
    run counts, and the report says so.
    """
    if not despite_noise:
        gauge.wait_until_quiet()
    by_start: dict[str, Contender] = {}
    for contender in contenders:
        by_start.setdefault(contender.start or contender.name, contender)
    warm = set() if warm is None else warm
    cold = [contender for start, contender in by_start.items() if start not in warm]
    for _ in range(warm_up):
        for contender in cold:
            contender.run()
    warm.update(by_start)
    result = Result()
    counted = 0
    while counted < rounds:
        samples: list[Sample] = []
        for contender in contenders:
            samples.append(
                _sample(contender, counted, gauge, result, 1 if despite_noise else tries)
            )
            if not (samples[-1].noise.is_quiet or despite_noise):
                break
        else:
            result.samples += samples
            counted += 1
            say(f"round {counted} of {rounds}: " + ", ".join(map(_summary, samples)))
            continue
        disturbed = samples[-1].noise
        result.skipped += 1
        say(f"round not counted: {disturbed}")
        if result.skipped > max(3, rounds):
            raise TooNoisyError(
                f"{result.skipped} rounds were disturbed, the last one thus: {disturbed}"
            )
        gauge.wait_until_quiet()
    return result


def _sample(
    contender: Contender, round_number: int, gauge: Gauge, result: Result, tries: int
) -> Sample:
    before = gauge.read()
    metrics = contender.run()
    after = gauge.read()
    sample = Sample(contender.name, round_number, metrics, gauge.between(before, after))
    if sample.noise.is_quiet:
        gauge.accept(before, after)
    if sample.noise.is_quiet or tries == 1:
        return sample
    result.repeated += 1
    return _sample(contender, round_number, gauge, result, tries - 1)


def _summary(sample: Sample) -> str:
    name, value = next(iter(sample.metrics.items()))
    return f"{sample.contender} {value:.4g} {name}"
