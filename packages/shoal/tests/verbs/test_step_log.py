"""What a page keeps of a log, however long it is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from shoal.aws.logs import LogLine
from shoal.aws.metrics import MAX_LINE
from shoal.page.readings import step_log
from shoal.page.readings.cause import Cause, CauseSearch
from shoal.page.readings.step_log import StepLog
from shoal.settings.sections.evaluation import Metric

BEGAN = datetime(2026, 11, 24, tzinfo=UTC)
MANY = 10_000


def line(text: str, seconds: float, stream: str = "job/algo-1-1795489693") -> LogLine:
    return LogLine(stream, BEGAN + timedelta(seconds=seconds), text)


def log_of(lines: Iterable[LogLine]) -> StepLog:
    """Return the log of a training that prints its loss, and has failed."""
    metrics = {"train:loss": Metric(regex="loss=([0-9.]+)")}
    log = StepLog(BEGAN, metrics, causes=CauseSearch())
    for each in lines:
        log.add(each)
    return log


def cause_in(lines: Iterable[LogLine], reason: str = "") -> Cause | None:
    search = CauseSearch(reason)
    for each in lines:
        search.add(each)
    return search.cause


def host(number: int, lines: int = MANY) -> Iterable[LogLine]:
    """Yield what a host prints, one line a second; hosts print at the same time."""
    for second in range(lines):
        yield line(f"step={second}/{lines} train_loss=0.5", second, f"job/algo-{number}-17954896")


def test_of_a_long_log_the_first_and_the_last_lines_of_all_hosts_are_kept() -> None:
    log = log_of(each for number in (1, 2) for each in host(number))
    assert len(log._lines) <= 2 * step_log.MAX_LINES
    kept = log.record()
    assert kept["cut"] == 2 * MANY - step_log.MAX_LINES
    steps = [(lane, text.split("/")[0]) for _, lane, _, text in kept["lines"]]
    half = [(f"algo-{number}", second) for second in range(500) for number in (1, 2)]
    last = [(lane, second + MANY - 500) for lane, second in half]
    assert steps == [(lane, f"step={second}") for lane, second in (*half, *last)]


def test_points_of_a_long_log_are_left_out_evenly_and_at_the_same_steps_of_each_host() -> None:
    (first, second) = log_of(each for number in (1, 2) for each in host(number)).curves()
    steps = [x for x, _, _ in first["points"]]
    assert steps == [x for x, _, _ in second["points"]]
    assert step_log.MAX_POINTS / 2 < len(steps) <= step_log.MAX_POINTS + 1
    assert first["cut"] == MANY - len(steps)
    distances = {after - before for before, after in pairwise(steps[:-1])}
    assert (len(distances), steps[0], steps[-1]) == (1, 0.0, MANY - 1.0)


@pytest.mark.parametrize(
    ("ranks", "each"), [(1, 3), (600, 350), (1500, 4)], ids=["few", "many", "too-many"]
)
def test_lanes_share_what_is_kept(ranks: int, each: int) -> None:
    log = log_of(
        line(f"[rank{rank}]: step={step}/{each} loss=1", step)
        for rank in range(ranks)
        for step in range(each)
    )
    lanes, kept = list(log.curves()), min(ranks, step_log.MAX_LANES)
    points = sum(len(lane["points"]) for lane in lanes)
    assert len(lanes) == kept
    assert points <= step_log.MAX_POINTS_OF_ALL + kept
    assert points + sum(lane["cut"] for lane in lanes) + log.values_lost == ranks * each
    assert log.values_lost == (ranks - kept) * each


def test_a_cause_in_the_middle_of_a_long_log_is_found() -> None:
    printed = [*host(1), line("ValueError: nan", MANY / 2, "job/algo-2-17954896"), *host(3)]
    assert cause_in(printed) == Cause("ValueError: nan", "algo-2")


@pytest.mark.parametrize(("error", "says"), [("ValueError: x", "ValueError: x"), ("", "Bad: 500")])
def test_the_object_that_failed_a_transform_is_named(error: str, says: str) -> None:
    own, objects = "job/i-0-17954896", "job/i-0-17954896/data-log"
    data = ("MaxPayloadInMB=1", "b/d/a b.csv: Bad: 500", "b/d/c.csv: Bad: 500")
    printed = [
        line(f"2026-11-28T23:56:26.572:[sagemaker logs]: {text}", 2, objects) for text in data
    ]
    assert cause_in([line(error, 1, own), *printed]) == Cause(f"b/d/a b.csv: {says}")


@pytest.mark.parametrize("length", [MAX_LINE, MAX_LINE + 1, 2**20])
def test_of_a_long_line_the_beginning_is_kept(length: int) -> None:
    ((_, _, _, text),) = log_of([line("x" * length, 0)]).record()["lines"]
    assert text == "x" * MAX_LINE
