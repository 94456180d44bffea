"""Every way to shard computes the same steps, and what a rank keeps is its share of the whole.

In float64, where the order of additions is all that differs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from local.tests.smddp.runtime import Runtime
from tests.training_code.language.jobs import (
    TOLERANCE,
    Job,
    Result,
    difference,
    run,
    write_text,
)

SMALL: dict[str, str | int] = {
    "precision": "float64",
    "depth": 2,
    "context": 16,
    "batch-size": 8,
    "steps": 6,
    "log-every": 1,
    "checkpoint-every": 3,
}
WAYS: dict[str, dict[str, str | int]] = {
    "ddp": {"sharding": "ddp"},
    "ddp, accumulation": {"sharding": "ddp", "accumulation": 2},
    "fsdp": {"sharding": "fsdp"},
    "fsdp, accumulation": {"sharding": "fsdp", "accumulation": 2},
    "fsdp, checkpointing": {"sharding": "fsdp", "checkpointing": "true"},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def alone(runtime: Runtime, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    (result,) = run(runtime, text, 1, Job(tmp_path_factory.mktemp("alone"), SMALL))
    assert result.status == 0, result.output
    return result


@pytest.fixture(scope="module")
def pairs(
    runtime: Runtime, text: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("pairs")
    jobs = [Job(folder / name, SMALL | options) for name, options in WAYS.items()]
    return dict(zip(WAYS, run(runtime, text, 2, *jobs), strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_compute_the_steps_of_one(
    alone: Result, pairs: dict[str, Result], way: str
) -> None:
    pair = pairs[way]
    assert pair.status == 0, pair.output
    assert_same_curve(pair, alone)
    assert difference(pair.job.weights(), alone.job.weights()) < TOLERANCE


def test_the_loss_falls(alone: Result) -> None:
    assert alone.curve[6] < alone.curve[1] - 0.5


def test_a_rank_of_fsdp_keeps_half_of_everything(pairs: dict[str, Result]) -> None:
    whole, half = pairs["ddp"].kept, pairs["fsdp"].kept
    assert set(whole) == {"weights", "gradients", "optimizer"}
    assert whole == {name: 2 * size for name, size in half.items()}


def assert_same_curve(result: Result, expected: Result) -> None:
    assert result.curve == {
        step: pytest.approx(loss, abs=TOLERANCE, rel=0)
        for step, loss in expected.curve.items()
        if step >= min(result.curve)
    }
