"""Contenders come in, and are run in turn: A B A B after a warm-up of each; the runs that count
go out.

A run during which the machine was disturbed is repeated at once; with too few quiet rounds there is
no result but an error.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dev.bench.noise import Gauge, Noise, TooNoisyError

TRIES = 4
"""Of one run, in its turn: a round of eight contenders is longer than the quiet spells of a machine
that is shared.
"""
Metrics = dict[str, float]
"""What one run measured, by name with the unit in it (`images_per_s`, `process_s`)."""


@dataclass(frozen=True)
class Contender:
    """Something to measure: each call is one run, in a fresh process where it can be."""

    name: str
    run: Callable[[], Metrics]
    start: str = ""
    """The environment that it starts from: one uncounted run warms up all that share it.

    Empty: shared with none.
    """


@dataclass(frozen=True)
class Sample:
    """One run that happened."""

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
    """Least and largest value: with few rounds, quartiles would pretend."""
    count: int


@dataclass
class Result:
    """All runs of one comparison."""

    samples: list[Sample] = field(default_factory=list)
    repeated: int = 0
    """Runs that were disturbed, and so measured again in their turn."""
    skipped: int = 0
    """Rounds that were thrown away, because a run of theirs was disturbed however often it was
    repeated.
    """

    def of(self, contender: str, metric: str) -> list[float]:
        """The values by round."""
        return [
            float(sample.metrics[metric])
            for sample in self.samples
            if sample.contender == contender and metric in sample.metrics
        ]

    def figure(self, contender: str, metric: str) -> Figure:
        """Median, least and largest."""
        return figure(self.of(contender, metric))

    def ratio(self, metric: str, contender: str, peer: str) -> Figure:
        """Contender over peer, formed within each round, so that what changes from round to round
        cancels.
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
        """Whether every run counts; only `despite_noise` lets others in."""
        return all(sample.noise.is_quiet for sample in self.samples)


def figure(values: Sequence[float]) -> Figure:
    """Median, least and largest of at least one value."""
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
    """Run every contender once per round, `rounds` times, after `warm_up` uncounted runs of each
    thing they start from.

    What is in `warm` needs none, and what has run is added to it.

    A disturbed run is repeated in its turn, whatever it measured, `tries` times in all. A round
    with one that stays disturbed ends there and is thrown away whole, so that ratios stay within a
    round; after more of those than rounds were asked for (at least 3) TooNoisyError is raised,
    unless `despite_noise`, which takes every run and says so.
    """
    if not despite_noise:
        gauge.wait_until_quiet()
    first: dict[str, Contender] = {}
    for contender in contenders:
        first.setdefault(contender.start or contender.name, contender)
    warm = set() if warm is None else warm
    cold = [contender for start, contender in first.items() if start not in warm]
    for _ in range(warm_up):
        for contender in cold:
            contender.run()
    warm.update(first)
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
            say(f"round {counted} of {rounds}: " + ", ".join(map(_brief, samples)))
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


def _brief(sample: Sample) -> str:
    name, value = next(iter(sample.metrics.items()))
    return f"{sample.contender} {value:.4g} {name}"
