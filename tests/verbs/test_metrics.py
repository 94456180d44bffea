"""Metrics from log lines."""

from __future__ import annotations

import math

import pytest

from shoal.verbs.metrics import Epoch, Parts, Progress, parse

PROGRESS = (
    "epoch=1 step=120/470 train_loss=0.1234 learning_rate=0.003 images_per_second=3456.7"
    " elapsed_s=4.1 world_size=2"
)
EPOCH = "epoch=1 test_loss=0.0345 test_accuracy=0.9876 elapsed_s=8.2"


def test_a_progress_line_is_read() -> None:
    assert parse(PROGRESS) == Progress(1, 120, 470, 0.1234, 3456.7, 4.1, 2)


def test_an_epoch_line_is_read() -> None:
    assert parse(EPOCH) == Epoch(1, 0.0345, 0.9876, 8.2)


def test_mpi_may_write_the_rank_before_the_line() -> None:
    assert parse(f"[1,mpirank:0,algo-1]<stdout>:{PROGRESS}") == parse(PROGRESS)


def test_a_small_learning_rate_and_a_diverged_loss_are_numbers() -> None:
    metrics = parse(PROGRESS.replace("0.003", "1e-05").replace("0.1234", "nan"))
    assert isinstance(metrics, Progress)
    assert math.isnan(metrics.train_loss)


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
    parts = parse(line)
    assert isinstance(parts, Parts)
    assert str(parts) == said


@pytest.mark.parametrize(
    "line", ["Downloading code", "", PROGRESS[:40], "subprocesses=2", "processes=2 of 4"]
)
def test_other_lines_have_no_metrics(line: str) -> None:
    assert parse(line) is None


def test_steps_count_on_over_epochs() -> None:
    assert Progress(3, 10, 470, 0.1, 1.0, 1.0, 2).steps_done == 950
