"""A job goes on from a checkpoint that another number of ranks wrote, sharded in another way,
whenever it was stopped or killed.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from local.tests.smddp.runtime import Runtime
from tests.training_code.language.jobs import (
    SMALL,
    TOLERANCE,
    Job,
    Result,
    Signal,
    assert_same_curve,
    difference,
    run,
)

SHAPES: dict[str, tuple[int, dict[str, str | int]]] = {
    "alone": (1, {}),
    "ddp on 2": (2, {"sharding": "ddp"}),
    "fsdp on 2": (2, {"sharding": "fsdp"}),
    "fsdp on 3": (3, {"sharding": "fsdp", "accumulation": 2}),
    "hsdp on 4": (4, {"sharding": "hsdp", "shard-size": 2}),
}
GATE = [("fsdp on 2", "alone"), ("alone", "fsdp on 2")]
MATRIX = [(one, other) for one in SHAPES for other in SHAPES if (one, other) not in GATE]
STOPPED = 128 + signal.SIGTERM
CHAINS, KILLS = 10, 5


def job(folder: Path, shape: str, sent: Signal | None = None, **options: int) -> Job:
    ranks, sharding = SHAPES[shape]
    changes: dict[str, str | int] = {name.replace("_", "-"): n for name, n in options.items()}
    return Job(folder, SMALL | sharding | changes, ranks, sent)


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("before", "after"),
    [*GATE, *(pytest.param(*pair, marks=pytest.mark.nightly) for pair in MATRIX)],
)
def test_a_job_passes_over_a_damaged_checkpoint_and_goes_on_in_another_shape(
    alone: Result, runtime: Runtime, text: Path, tmp_path: Path, before: str, after: str
) -> None:
    (first,) = run(runtime, text, job(tmp_path, before))
    assert first.status == 0, first.output
    flip_a_byte(first.job.checkpoints[-1] / "__0_0.distcp")
    (second,) = run(runtime, text, job(tmp_path, after))
    assert "passed over checkpoint step-00000006: __0_0.distcp has other bytes" in second.output
    assert "resumed at step=3 " in second.output
    assert list(second.curve) == [4, 5, 6]
    assert_same_curve(second, alone)
    assert difference(second.job.weights(), alone.job.weights()) < TOLERANCE


def test_sigterm_ends_a_job_with_a_checkpoint_and_without_a_model(
    runtime: Runtime, text: Path, tmp_path: Path
) -> None:
    sent = Signal(signal.SIGTERM, line=1)
    (stopped,) = run(runtime, text, job(tmp_path, "fsdp on 2", sent, steps=100_000))
    assert stopped.status == STOPPED
    assert "stopped on SIGTERM at step=" in stopped.output
    assert [each.name for each in stopped.job.checkpoints][-1] == f"step-{max(stopped.curve):08d}"
    assert not (tmp_path / "model").exists()


def test_a_checkpoint_of_other_settings_is_refused_by_name(
    alone: Result, runtime: Runtime, text: Path
) -> None:
    (other,) = run(runtime, text, job(alone.job.folder, "alone", seed=2, steps=7))
    assert other.status == 1
    assert "other settings: steps 6 (now 7), seed 1 (now 2); use them or another" in other.output


@pytest.mark.nightly
def test_jobs_killed_at_fifty_moments_have_the_curve_of_an_undisturbed_one(
    runtime: Runtime, text: Path, tmp_path: Path
) -> None:
    moments = random.Random(1)
    lengths = {"steps": 12, "checkpoint_every": 1}

    def killed() -> Signal:
        return Signal(signal.SIGKILL, moments.choice((1, 2)), moments.uniform(0, 0.1))

    jobs = [
        job(
            tmp_path / f"chain {chain}",
            moments.choice(list(SHAPES)),
            killed() if kill < KILLS else None,
            **lengths,
        )
        for chain in range(CHAINS)
        for kill in range(KILLS + 1)
    ]
    expected, *results = run(
        runtime, text, job(tmp_path / "undisturbed", "alone", **lengths), *jobs
    )
    assert expected.status == 0, expected.output
    kills = [result for result in results if result.status == -signal.SIGKILL]
    assert len(kills) == CHAINS * KILLS
    for result in results:
        for step, loss in result.curve.items():
            assert loss == pytest.approx(expected.curve[step], abs=TOLERANCE, rel=0)
        if not result.job.signal:
            assert result.status == 0, result.output
            assert difference(result.job.weights(), expected.job.weights()) < TOLERANCE
