"""DeepSpeed's ZeRO-3 computes the steps of one rank with its share of the memory, and its
checkpoints are those of the other ways.

What needs the package deepspeed is nightly: the peers' environment has it. In float32, which is as
exact as it computes.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from tests.repository import CHECKOUT
from tests.training_code.language.jobs import (
    CODE,
    SMALL,
    Compute,
    Job,
    Options,
    Result,
    difference,
    ways,
)

Shape = tuple[int, Options]
TOLERANCE = 2e-5
"""Measured: 1e-6 in a loss, which is its last digit, and 3e-6 in a weight; FSDP2's are as large."""
FLOAT32: Options = SMALL | {"precision": "float32", "depth": 2, "steps": 6}
ALONE: Shape = (1, {})
ZERO: Options = {"sharding": "zero3"}
WAYS = ways("zero")
CHAINS: dict[str, list[Shape]] = {
    "ddp on 2, zero3 on 3, fsdp on 2": [
        (2, {"sharding": "ddp"}),
        (3, ZERO),
        (2, {"sharding": "fsdp"}),
    ],
    "zero3 on 2, alone, zero3 on 3": [(2, ZERO), ALONE, (3, ZERO)],
    "fsdp on 3, zero3 on 2, zero3 alone": [(3, {"sharding": "fsdp"}), (2, ZERO), (1, ZERO)],
}
REFUSED: dict[str, tuple[Options, str]] = {
    "float64": (
        {"precision": "float64"},
        "--precision float64: DeepSpeed keeps weights in float32",
    ),
    "compiled": ({"compile": "true"}, "--compile: DeepSpeed gathers weights within what would be"),
    "adapters": (
        {"lora-rank": 2, "base-dir": "."},
        "--lora-rank: DeepSpeed keeps no float32 of a base in bf16",
    ),
}


def assert_near(result: Result, expected: Result, tolerance: float = TOLERANCE) -> None:
    """Check that a job, from the step it began with, has nearly the losses of another."""
    assert result.status == 0, result.output
    assert result.curve == {
        step: pytest.approx(loss, abs=tolerance, rel=0)
        for step, loss in expected.curve.items()
        if step >= min(result.curve)
    }


@pytest.fixture(scope="module")
def alone32(compute_with_peers: Compute, tmp_path_factory: pytest.TempPathFactory) -> Result:
    (result,) = compute_with_peers(Job(tmp_path_factory.mktemp("alone32"), FLOAT32))
    assert result.status == 0, result.output
    return result


def test_zero_without_its_package_is_refused(runtime: Runtime, text: Path, tmp_path: Path) -> None:
    words = ("--train-dir", text, "--model-dir", tmp_path, "--sharding", "zero3")
    outcome = runtime.run(runtime.alone(CODE / "train.py", *words), tmp_path)
    assert outcome.returncode == 2
    assert "zero3 needs the package deepspeed, which is not installed here: name it in a" in (
        outcome.output
    )


@pytest.mark.nightly
@pytest.mark.parametrize("way", WAYS)
def test_zero_computes_the_steps_of_one_rank(
    alone32: Result, compute_with_peers: Compute, tmp_path: Path, way: str
) -> None:
    ranks, options = WAYS[way]
    job = Job(tmp_path, FLOAT32 | options, ranks)
    (result,) = compute_with_peers(job)
    assert_near(result, alone32)
    assert difference(job.weights("f"), alone32.job.weights("f")) < TOLERANCE


@pytest.mark.nightly
def test_a_rank_of_zero_keeps_half_of_everything_and_a_copy_of_its_weights(
    alone32: Result, compute_with_peers: Compute, tmp_path: Path
) -> None:
    half = {name: size // 2 for name, size in alone32.kept.items()}
    precisions = ("float32", "bf16")
    jobs = [Job(tmp_path / each, FLOAT32 | ZERO | {"precision": each}, 2) for each in precisions]
    exact, rounded = compute_with_peers(*jobs)
    assert exact.kept == half | {"weights": 2 * half["weights"]}
    assert rounded.kept == half | {"weights": half["weights"] + half["weights"] // 2}


@pytest.mark.nightly
@pytest.mark.parametrize("chain", CHAINS)
def test_a_job_goes_on_from_and_to_zero_on_another_number_of_ranks(
    alone32: Result, compute_with_peers: Compute, tmp_path: Path, chain: str
) -> None:
    intervals = (4, 1, 1)  # so that steps 4 and 5 have one
    jobs = [
        Job(tmp_path, FLOAT32 | options | {"checkpoint-every": interval}, ranks)
        for (ranks, options), interval in zip(CHAINS[chain], intervals, strict=True)
    ]
    (first,) = compute_with_peers(jobs[0])
    assert_near(first, alone32)
    for job, step in zip(jobs[1:], (4, 5), strict=True):
        keep_checkpoint(tmp_path, step)
        (result,) = compute_with_peers(job)
        assert f"resumed at step={step} " in result.output
        assert_near(result, alone32)
    assert difference(jobs[-1].weights("f"), alone32.job.weights("f")) < TOLERANCE


@pytest.mark.nightly
def test_zero_in_bf16_stays_near_fsdp_and_its_checkpoint_goes_on_there(
    compute_with_peers: Compute, tmp_path: Path
) -> None:
    options = FLOAT32 | {"precision": "bf16"}
    fsdp = Job(tmp_path / "fsdp", options | {"sharding": "fsdp"}, 2)
    zero = Job(tmp_path / "zero", options | ZERO, 2)
    expected, result = compute_with_peers(fsdp, zero)
    assert_near(result, expected, 0.005)
    keep_checkpoint(zero.folder, 4)
    (resumed,) = compute_with_peers(Job(zero.folder, fsdp.options, 2))
    assert "resumed at step=4 " in resumed.output
    assert_near(resumed, result, 0.005)


@pytest.mark.nightly
def test_a_step_deepspeed_skips_ends_all_ranks(compute_with_peers: Compute, tmp_path: Path) -> None:
    job = Job(tmp_path, FLOAT32 | ZERO | {"log-every": 3, "checkpoint-every": 6}, 2)
    (result,) = compute_with_peers(job, probe="poison")
    assert result.statuses == [1, 1]
    # at step 2 where steps take seconds, for then a line comes early
    assert re.search("the loss is nan at step [23]: try a smaller --learning-rate", result.output)


@pytest.mark.nightly
def test_zero_starts_with_the_weights_of_a_base(
    compute_with_peers: Compute, tmp_path: Path
) -> None:
    base = Job(tmp_path / "base", FLOAT32 | {"depth": 1})  # whose head is not tied
    options = FLOAT32 | {"base-dir": str(base.folder / "model")}
    jobs = Job(tmp_path / "alone", options), Job(tmp_path / "zero", options | ZERO, 2)
    _, expected, result = compute_with_peers(base, *jobs)
    assert expected.status == 0, expected.output
    assert_near(result, expected)


@pytest.mark.nightly
@pytest.mark.parametrize("setting", REFUSED)
def test_what_zero_does_not_do_is_refused_with_what_does(
    peers: Runtime, text: Path, tmp_path: Path, setting: str
) -> None:
    options, message = REFUSED[setting]
    given = FLOAT32 | ZERO | {"train-dir": str(text), "model-dir": str(tmp_path)}
    outcome = peers.run(peers.alone(CODE / "train.py", *words_of(given | options)), tmp_path)
    assert outcome.returncode == 2
    assert f"error: --sharding zero3 does not go with {message}" in outcome.output


@pytest.mark.nightly
def test_zero_over_smddp_is_refused(peers: Runtime, text: Path, tmp_path: Path) -> None:
    folders = (CHECKOUT / "packages" / "stand-ins" / name / "src" for name in ("smddp", "common"))
    smddp = {"PYTHONPATH": ":".join(map(str, folders))}
    words = ("--train-dir", text, "--model-dir", tmp_path, "--sharding", "zero3")
    command = peers.alone(CODE / "train.py", *words, "--context", "8", "--backend", "smddp")
    outcome = peers.run(command, tmp_path, smddp)
    assert outcome.returncode == 1
    assert "zero3 does not go with smddp: DeepSpeed makes groups of ranks" in outcome.output


@pytest.mark.nightly
def test_torchruns_ranks_leave_what_deepspeed_has_made(
    alone32: Result, peers: Runtime, text: Path, tmp_path: Path
) -> None:
    folders: Options = {"train-dir": str(text), "model-dir": str(tmp_path / "model")}
    command = peers.torchrun(2, CODE / "train.py", *words_of(FLOAT32 | ZERO | folders))
    first, again = (peers.run(command, tmp_path) for _ in range(2))
    assert (first.returncode, again.returncode) == (0, 0), first.output + again.output
    assert "resumed at step=6 " in again.output
    weights = Job(tmp_path).weights("f")
    assert difference(weights, alone32.job.weights("f")) < TOLERANCE
    too_fast = FLOAT32 | ZERO | folders | {"learning-rate": "1e30", "checkpoint-dir": "none"}
    command = peers.torchrun(2, CODE / "train.py", *words_of(too_fast))
    failed = peers.run(command, tmp_path)
    assert failed.returncode == 1
    assert "try a smaller --learning-rate" in failed.output


def words_of(options: Options) -> list[str]:
    """Return options as a command line has them."""
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def keep_checkpoint(folder: Path, step: int) -> None:
    """Remove all checkpoints but one."""
    for each in (folder / "checkpoints").iterdir():
        if each.name != f"step-{step:08d}":
            shutil.rmtree(each)
