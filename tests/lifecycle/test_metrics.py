"""Metrics from log lines."""

from __future__ import annotations

import math

from lifecycle.metrics import Epoch, Progress, parse, parse_all

PROGRESS = "epoch=1 step=120/470 train_loss=0.1234 learning_rate=0.003 images_per_second=3456.7 elapsed_s=4.1 world_size=2"
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


def test_other_lines_have_no_metrics() -> None:
    assert parse_all(["Downloading code", "", PROGRESS[:40]]) == ()


def test_steps_count_on_over_epochs() -> None:
    assert Progress(3, 10, 470, 0.1, 1.0, 1.0, 2).steps_done == 950
