"""Runs alternate, a disturbed run is repeated in its turn, ratios stay within a round, and noise
gets no result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from dev.bench import noise
from dev.bench.interleave import TRIES, Contender, Metrics, Result, interleave
from dev.bench.noise import Gauge, Noise, Reading, TooNoisyError
from dev.bench.report import Column, Comparison

QUIET = Noise(1.0, 0.0)
DISTURBED = Noise(1.0, 0.4)


@pytest.fixture(autouse=True)
def few_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a real gauge read itself in in a fifth of the time."""
    monkeypatch.setattr(noise, "CALIBRATIONS", 3)


class ScriptedGauge(Gauge):
    """Returns the test's noises; measures nothing."""

    def __init__(self, noises: Iterator[Noise]) -> None:
        self._noises = noises
        self.accepted, self.waited = 0, 0

    def accept(self, *readings: Reading) -> None:
        self.accepted += len(readings)

    def read(self) -> Reading:
        return Reading(1.0, 0.0, 0.0, 0.0, 0.0)

    def between(self, before: Reading, after: Reading) -> Noise:
        del before, after
        return next(self._noises)

    def wait_until_quiet(self) -> None:
        self.waited += 1


def contenders(log: list[str], speeds: dict[str, list[float]]) -> list[Contender]:
    """Return contenders that note their turn; the n-th run of each has the n-th speed, then the
    last one.
    """

    def of(name: str) -> Contender:
        def run() -> Metrics:
            log.append(name)
            remaining = speeds[name]
            return {"images_per_s": remaining.pop(0) if len(remaining) > 1 else remaining[0]}

        return Contender(name, run)

    return [of(name) for name in speeds]


def measured(
    noises: list[Noise],
    rounds: int,
    *,
    despite_noise: bool = False,
    speeds: dict[str, list[float]] | None = None,
) -> Result:
    speeds = speeds or {"ours": [1, 30, 20], "peer": [1, 10, 5]}
    gauge = ScriptedGauge(iter(noises))
    return interleave(
        contenders([], speeds), rounds, gauge, despite_noise=despite_noise, say=lambda _: None
    )


def test_contenders_take_turns_after_a_warm_up() -> None:
    log: list[str] = []
    interleave(
        contenders(log, {"a": [1], "b": [1]}),
        2,
        ScriptedGauge(iter([QUIET] * 4)),
        say=lambda _: None,
    )
    assert log == ["a", "b"] * 3


def test_what_starts_from_the_same_environment_is_warmed_up_once() -> None:
    log: list[str] = []
    sharing = [
        dataclasses.replace(each, start="" if each.name == "c" else "peers")
        for each in contenders(log, {"a": [1], "b": [1], "c": [1]})
    ]
    interleave(sharing, 1, ScriptedGauge(iter([QUIET] * 3)), say=lambda _: None)
    assert log == ["a", "c", "a", "b", "c"]


def test_what_ran_before_needs_no_warm_up() -> None:
    log: list[str] = []
    warm, quiet = set[str](), [QUIET] * 2
    both = [
        dataclasses.replace(each, start=f"where {each.name} is")
        for each in contenders(log, {"a": [1], "b": [1]})
    ]
    interleave(both[:1], 1, ScriptedGauge(iter(quiet)), warm_up=0, warm=warm, say=lambda _: None)
    interleave(both, 1, ScriptedGauge(iter(quiet)), warm=warm, say=lambda _: None)
    assert log == ["a", "b", "a", "b"]
    assert warm == {"where a is", "where b is"}


class LoadedGauge(Gauge):
    """A gauge on a machine on which nobody else computes, with these load averages."""

    def __init__(self, loads: list[float]) -> None:
        super().__init__()
        self.loads = loads

    def read(self) -> Reading:
        return Reading(1.0, 0.0, 0.0, 0.0, self.loads.pop(0))

    def between(self, before: Reading, after: Reading) -> Noise:
        del before, after
        return QUIET


def test_the_load_average_counts_until_our_own_runs_are_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noise, "POLL_S", 0.0)
    gauge = LoadedGauge([99.0, 99.0, 0.1, 99.0, 99.0])
    gauge.wait_until_quiet()
    assert gauge.loads == [99.0, 99.0]
    gauge.wait_until_quiet()
    assert gauge.loads == []


def test_a_ratio_is_formed_within_each_round() -> None:
    ratio = measured([QUIET] * 4, 2).ratio("images_per_s", "ours", "peer")
    assert (ratio.low, ratio.median, ratio.high) == (3.0, 3.5, 4.0)


def test_a_disturbed_run_is_repeated_in_its_turn() -> None:
    result = measured(
        [QUIET, DISTURBED, DISTURBED, QUIET], 1, speeds={"ours": [1, 20], "peer": [1, 99, 98, 5]}
    )
    assert (result.repeated, result.skipped) == (2, 0)
    assert (result.of("ours", "images_per_s"), result.of("peer", "images_per_s")) == ([20], [5])


def test_a_round_with_a_run_that_stays_disturbed_is_repeated_whole() -> None:
    result = measured(
        [QUIET, *[DISTURBED] * TRIES, QUIET, QUIET],
        1,
        speeds={"ours": [1, 99, 20], "peer": [1, *[99] * TRIES, 5]},
    )
    assert result.skipped == 1
    assert (result.of("ours", "images_per_s"), result.of("peer", "images_per_s")) == ([20], [5])


def test_a_machine_that_stays_noisy_gets_no_result() -> None:
    with pytest.raises(TooNoisyError, match="other processes used 40% of the cores"):
        measured([DISTURBED] * 40, 2)


def test_a_result_taken_despite_noise_says_so_in_its_table() -> None:
    result = measured([DISTURBED] * 2, 1, despite_noise=True)
    table = Comparison(
        "speed", "Speed", result, ["ours", "peer"], [Column("images/s", "images_per_s")]
    ).table()
    assert "| ours | 30 (30-30) |" in table
    assert "not for publication" in table


def test_the_gauge_sees_the_work_of_others_and_not_its_own() -> None:
    gauge = Gauge()
    usual = gauge.usual_kernel_s
    before = Reading(usual, busy_s=100.0, own_s=10.0, at_s=0.0, load=0.0)
    own = gauge.between(before, Reading(usual, busy_s=101.0, own_s=11.0, at_s=1.0, load=1.0))
    others = gauge.between(before, Reading(usual, busy_s=101.0, own_s=10.0, at_s=1.0, load=1.0))
    assert own.is_quiet
    assert not others.is_quiet


@pytest.mark.parametrize(
    ("kernel", "quiet"), [(1.05, True), (0.95, True), (1.2, False), (0.8, False)]
)
def test_a_machine_that_became_slower_or_faster_is_not_quiet(kernel: float, quiet: bool) -> None:
    gauge = Gauge()
    before = Reading(gauge.usual_kernel_s, busy_s=0.0, own_s=0.0, at_s=0.0, load=0.0)
    noise = gauge.between(
        before, Reading(kernel * gauge.usual_kernel_s, busy_s=0.0, own_s=0.0, at_s=1.0, load=0.0)
    )
    assert noise.is_quiet == quiet
    assert noise.kernel_ratio == pytest.approx(kernel)


def test_what_is_usual_follows_the_runs_that_count() -> None:
    gauge = Gauge()
    slower = Reading(2 * gauge.usual_kernel_s, busy_s=0.0, own_s=0.0, at_s=0.0, load=0.0)
    gauge.accept(*[slower] * (noise.CALIBRATIONS // 2 + 1))
    assert gauge.usual_kernel_s == slower.kernel_s


def test_what_was_read_around_a_disturbed_run_does_not_become_usual() -> None:
    gauge = ScriptedGauge(iter([DISTURBED, QUIET, *[DISTURBED] * TRIES, QUIET, QUIET]))
    interleave(contenders([], {"ours": [1], "peer": [1]}), 1, gauge, say=lambda _: None)
    assert gauge.accepted == 2 * 3


def test_a_round_ends_with_the_run_that_stays_disturbed_and_the_next_waits_for_quiet() -> None:
    log: list[str] = []
    gauge = ScriptedGauge(iter([*[DISTURBED] * TRIES, QUIET, QUIET]))
    interleave(contenders(log, {"ours": [1], "peer": [1]}), 1, gauge, warm_up=0, say=lambda _: None)
    assert log == [*["ours"] * TRIES, "ours", "peer"]
    assert gauge.waited == 2


def test_another_level_is_usual_once_the_machine_is_quiet_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(noise, "POLL_S", 0.0)
    monkeypatch.setattr(noise, "busy_s", lambda: 0.0)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    gauge = Gauge()
    slower = 2 * gauge.usual_kernel_s
    monkeypatch.setattr(noise, "best_kernel_s", lambda: slower)
    gauge.wait_until_quiet()
    assert gauge.usual_kernel_s == slower


def test_reading_alone_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gauge = Gauge()
    usual = gauge.usual_kernel_s
    monkeypatch.setattr(noise, "best_kernel_s", lambda: 2 * usual)
    for _ in range(noise.CALIBRATIONS):
        gauge.read()
    assert gauge.usual_kernel_s == usual
