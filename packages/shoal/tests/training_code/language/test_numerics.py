"""Every way to shard computes the same steps, and what a rank keeps is its share of the whole.

In float64, where the order of additions is all that differs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.training_code.language.jobs import (
    SMALL,
    Compute,
    Job,
    Options,
    Result,
    assert_same,
    ways,
)

WAYS, MORE_WAYS = ways("numerics"), ways("numerics, nightly")
DEEPER: Options = SMALL | {"depth": 2, "context": 16, "steps": 20, "checkpoint-every": 20}


@pytest.fixture(scope="module")
def pairs(compute: Compute, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("pairs")
    jobs = [Job(folder / name, SMALL | options, ranks) for name, (ranks, options) in WAYS.items()]
    return dict(zip(WAYS, compute(*jobs), strict=True))


@pytest.fixture(scope="module")
def deeper_alone(compute: Compute, tmp_path_factory: pytest.TempPathFactory) -> Result:
    (result,) = compute(Job(tmp_path_factory.mktemp("alone"), DEEPER))
    return result


@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_compute_ones_steps(alone: Result, pairs: dict[str, Result], way: str) -> None:
    assert_same(pairs[way], alone)


def test_ends_that_are_sharded_apart_compute_the_same(compute: Compute, tmp_path: Path) -> None:
    fsdp = Job(tmp_path / "fsdp", SMALL | {"sharding": "fsdp"}, 2)
    one, two = compute(Job(tmp_path / "one", SMALL), fsdp, probe="untied")
    assert one.status == 0, one.output
    assert_same(two, one)


def test_the_loss_falls(alone: Result) -> None:
    assert alone.curve[4] < alone.curve[1] - 0.5


def test_a_rank_of_fsdp_keeps_half_of_everything(pairs: dict[str, Result]) -> None:
    whole, half = pairs["ddp"].kept, pairs["fsdp"].kept
    assert set(whole) == {"weights", "gradients", "optimizer"}
    assert whole == {name: 2 * size for name, size in half.items()}


@pytest.mark.nightly
@pytest.mark.parametrize("way", MORE_WAYS)
def test_more_ranks_and_layers_compute_the_steps_of_one_with_their_share(
    deeper_alone: Result, compute: Compute, tmp_path: Path, way: str
) -> None:
    ranks, options = MORE_WAYS[way]
    parts = {"ddp": 1, "fsdp": ranks, "hsdp": 2}[str(options["sharding"])]
    (result,) = compute(Job(tmp_path, DEEPER | options, ranks))
    assert {name: parts * size for name, size in result.kept.items()} == deeper_alone.kept
    assert_same(result, deeper_alone)


@pytest.mark.nightly
def test_bf16_stays_in_a_band_around_float64(
    deeper_alone: Result, compute: Compute, tmp_path: Path
) -> None:
    options = DEEPER | {"precision": "bf16"}
    ways = [Job(tmp_path / way, options | {"sharding": way}, ranks=2) for way in ("ddp", "fsdp")]
    for result in compute(*ways):
        assert result.curve == {
            step: pytest.approx(loss, abs=0.05) for step, loss in deeper_alone.curve.items()
        }


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_gradients_that_are_no_numbers_end_all_ranks_at_the_next_line(
    compute: Compute, tmp_path: Path, way: str
) -> None:
    job = Job(tmp_path, SMALL | {"sharding": way, "log-every": 3, "checkpoint-every": 6}, 2)
    (result,) = compute(job, probe="poison")
    assert result.statuses == [1, 1]
    # at step 2 where steps take seconds, for then a line comes early
    assert re.search("the loss is nan at step [23]: try a smaller --learning-rate", result.output)
