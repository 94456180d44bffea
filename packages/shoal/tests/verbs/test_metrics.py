"""Metrics from log lines."""

from __future__ import annotations

import pytest

from shoal.aws.metrics import (
    Parts,
    Position,
    Progress,
    Reading,
    parse,
    progress_metrics,
    trained_text,
)
from shoal.settings.sections.evaluation import Metric

METRICS = {
    "train:loss": Metric(regex="train_loss=([0-9.eE+-]+)"),
    "train:rows_per_second": Metric(regex="rows_per_second=([0-9.eE+-]+)", unit="rows/s"),
}
LINE = (
    "epoch=1 step=120/470 train_loss=0.1234 learning_rate=0.003 rows_per_second=3456.7"
    " elapsed_s=4.1 world_size=2"
)
READINGS = (Reading("train:loss", 0.1234), Reading("train:rows_per_second", 3456.7, "rows/s"))


def test_the_workloads_own_numbers_are_read_with_what_the_line_says_of_its_place() -> None:
    assert parse(LINE, METRICS) == Progress(READINGS, Position(1, 120, 470), 4.1, 2)


def test_a_line_with_nothing_but_a_number_is_enough() -> None:
    assert parse("now train_loss=3", METRICS) == Progress((Reading("train:loss", 3),))


def test_an_epoch_without_steps_is_a_place_too() -> None:
    metrics = parse("epoch=7 train_loss=0.5", METRICS)
    assert isinstance(metrics, Progress)
    assert metrics.position == Position(7)


def test_steps_without_epochs_are_a_place_too() -> None:
    metrics = parse(LINE.removeprefix("epoch=1 "), METRICS)
    assert isinstance(metrics, Progress)
    assert metrics.position == Position(0, 120, 470)
    assert (metrics.position.steps_done, str(metrics.position)) == (120, "step 120/470")


def test_mpi_may_write_the_rank_before_the_line() -> None:
    assert parse(f"[1,mpirank:0,algo-1]<stdout>:{LINE}", METRICS) == parse(LINE, METRICS)


@pytest.mark.parametrize("text", ["nan", "e", "1e999", "--"])
def test_what_is_no_finite_number_is_left_out(text: str) -> None:
    metrics = parse(LINE.replace("0.1234", text), METRICS)
    assert isinstance(metrics, Progress)
    assert metrics.readings == READINGS[1:]


def test_a_training_is_followed_by_what_is_marked_or_else_by_everything() -> None:
    marked = METRICS | {"test:rmse": Metric(regex="rmse=([0-9.]+)", progress=True)}
    assert [*progress_metrics(marked)] == ["test:rmse"]
    assert progress_metrics(METRICS) == METRICS


def test_numbers_are_said_with_their_units_and_who_trains() -> None:
    said = "train:loss 0.1234, train:rows_per_second 3,457 rows/s"
    progress = Progress(READINGS, None, 4.1, 2)
    assert trained_text(READINGS, None) == said
    assert trained_text(READINGS, None, progress) == f"{said} on a world of 2, 4 s"
    assert trained_text(READINGS, Parts(2, (("ranks", 2),)), progress) == f"{said} on 2 ranks, 4 s"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("processes=2 ranks=2", "2 ranks"),
        ("processes=1 ranks=1", "1 process"),
        ("processes=1", "1 process"),
        ("processes=1 replicas=2", "2 replicas in one process"),
        ("processes=2 workers=2", "2 workers"),
        ("processes=2 workers=2 replicas=16", "2 workers, 16 replicas in 2 processes"),
        (
            "[1,mpirank:0,algo-1]<stdout>:processes=6 chiefs=1 parameter_servers=3 workers=2",
            "1 chief, 3 parameter servers, 2 workers",
        ),
    ],
)
def test_who_trains_is_said_in_words(line: str, said: str) -> None:
    parts = parse(line, METRICS)
    assert isinstance(parts, Parts)
    assert str(parts) == said


@pytest.mark.parametrize(
    "line", ["Downloading code", "", LINE[:20], "subprocesses=2", "processes=2 of 4"]
)
def test_other_lines_have_no_metrics(line: str) -> None:
    assert parse(line, METRICS) is None


def test_steps_count_on_over_epochs() -> None:
    assert Position(3, 10, 470).steps_done == 950
