"""Checkpoints of the language model, its evaluation, and its answers."""

import gzip
import itertools
import lzma
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from shoal.aws.model_archive import content_sha256, sha256
from tests.training_code.language.jobs import (
    SMALL,
    TOLERANCE,
    Compute,
    Job,
    Options,
    Result,
    Signal,
    assert_same,
    assert_same_curve,
    ways,
)

SHAPES, OVER_SMDDP = ways("checkpoint"), ways("checkpoint, smddp")
GATE = [("fsdp on 2", "alone"), ("alone", "fsdp on 2")]
MATRIX = [(one, other) for one in SHAPES for other in SHAPES if (one, other) not in GATE]
MATRIX += [("fsdp on 2, smddp", "alone"), ("fsdp on 3", "fsdp on 2, smddp")]
STOPPED = 128 + signal.SIGTERM


def job(folder: Path, shape: str, sent: Signal | None = None, **options: int) -> Job:
    ranks, sharding = (SHAPES | OVER_SMDDP)[shape]
    changes: Options = {name.replace("_", "-"): n for name, n in options.items()}
    return Job(folder, SMALL | sharding | changes, ranks, sent)


def longer_job(folder: Path, shape: str, sent: Signal | None = None) -> Job:
    return job(folder, shape, sent, steps=100, checkpoint_every=1)


def assert_part_of_curve(result: Result, expected: Result) -> None:
    """Check that a job that did not end has the losses of another, as far as it came."""
    assert result.curve == {
        step: pytest.approx(expected.curve[step], abs=TOLERANCE, rel=0) for step in result.curve
    }


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("before", "after"),
    [*GATE, *(pytest.param(*pair, marks=pytest.mark.nightly) for pair in MATRIX)],
)
def test_a_job_passes_over_a_damaged_checkpoint_and_goes_on_in_another_shape(
    alone: Result, compute: Compute, tmp_path: Path, before: str, after: str
) -> None:
    first = job(tmp_path, before)
    if before == "alone":
        shutil.copytree(alone.job.folder / "checkpoints", tmp_path / "checkpoints")
    else:
        compute(first)
    flip_a_byte(first.checkpoints[-1] / "__0_0.distcp")
    (second,) = compute(job(tmp_path, after))
    assert "passed over checkpoint step-00000004: __0_0.distcp has other bytes" in second.output
    assert "resumed at step=2 " in second.output
    assert list(second.curve) == [3, 4]
    assert_same(second, alone)


def test_sigterm_ends_a_job_with_a_checkpoint_and_without_a_model_between_two_lines(
    compute: Compute, tmp_path: Path
) -> None:
    sent, never = Signal(signal.SIGTERM, line=1), 100_000
    lines = {"log_every": never, "checkpoint_every": never}
    (stopped,) = compute(job(tmp_path, "fsdp on 2", sent, steps=never, **lines))
    assert stopped.status == STOPPED
    assert "stopped on SIGTERM at step=" in stopped.output
    assert [each.name for each in stopped.job.checkpoints][-1] == f"step-{max(stopped.curve):08d}"
    assert not (tmp_path / "model").exists()


def test_a_checkpoint_is_kept_though_damaged_ones_have_higher_numbers(
    compute: Compute, tmp_path: Path
) -> None:
    def stopped(line: int) -> Job:
        return job(tmp_path, "alone", Signal(signal.SIGTERM, line), steps=100_000)

    first = stopped(40)
    compute(first)
    damaged = first.checkpoints
    for each in damaged:
        flip_a_byte(each / "__0_0.distcp")
    second, third = compute(stopped(5), stopped(1))
    assert len(damaged) == 2
    assert second.output.count("passed over checkpoint") == 2
    assert f"resumed at step={max(second.curve)} " in third.output


def test_a_damaged_checkpoint_takes_the_place_of_no_whole_one(
    alone: Result, compute: Compute, tmp_path: Path
) -> None:
    last = job(tmp_path, "alone", checkpoint_every=4)
    whole, damaged = tmp_path / "checkpoints/step-00000002", tmp_path / "checkpoints/step-00000003"
    for copy in (whole, damaged):
        shutil.copytree(alone.job.checkpoints[0], copy)
    flip_a_byte(damaged / "__0_0.distcp")
    (result,) = compute(last)
    assert "resumed at step=2 " in result.output
    assert [each.name for each in last.checkpoints] == [whole.name, "step-00000004"]


def test_what_else_lies_in_the_folder_is_no_checkpoint(compute: Compute, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    others = [folder / "step-00000001-notes", folder / "notes.partial"]
    for each in others:
        each.mkdir(parents=True)
    for each, source in ((folder / "step-00000000", others[0]), (folder / "step-00000001.txt", "")):
        each.symlink_to(source or __file__)
        others.append(each)
    (result,) = compute(job(tmp_path, "alone", checkpoint_every=1))
    assert (result.status, "passed over" in result.output) == (0, False)
    steps = [folder / f"step-0000000{step}" for step in (3, 4)]
    assert result.job.checkpoints == sorted([*others, *steps])


def test_training_goes_on_while_a_checkpoint_is_written(runtime: Runtime, tmp_path: Path) -> None:
    script = Path(__file__).with_name("scripts") / "write_slowly.py"
    seen = runtime.answer(
        runtime.alone(script, tmp_path / "checkpoints", tmp_path / "seen.json"), tmp_path
    )
    assert seen["while it waits"] == ["step-00000001.partial"]
    assert seen["written while it waits"] is False
    assert seen["when the second one begins"] == ["step-00000001", "step-00000002.partial"]
    assert seen["at the end"] == ["step-00000001", "step-00000002"]
    assert (seen["step"], seen["weight"]) == (1, 1.0)


def test_a_full_disk_of_one_rank_ends_all_ranks_with_one_message(
    compute: Compute, tmp_path: Path
) -> None:
    full = replace(job(tmp_path, "fsdp on 2"), max_file_bytes=100_000)
    (failed,) = compute(full)
    assert failed.statuses == [1, 1]
    assert "step-00000002 cannot be written (rank 1: [Errno 27] File too large): make room" in (
        failed.output
    )
    assert [each.name for each in full.checkpoints] == ["step-00000002.partial"]


def test_settings_that_do_not_fit_are_named(alone: Result, compute: Compute) -> None:
    folder = alone.job.folder
    jobs = (job(folder, "alone", seed=2, steps=7), job(folder, "alone", accumulation=5))
    other, uneven = compute(*jobs)
    assert (other.status, uneven.status) == (1, 1)
    assert "other settings: steps 4 (now 7), seed 1 (now 2); use them or another" in other.output
    assert "--batch-size 12 is not divisible by 1 ranks times --accumulation 5" in uneven.output


@pytest.mark.nightly
def test_two_hosts_keep_their_parts_until_a_job_has_all_of_them(
    alone: Result, compute: Compute, tmp_path: Path
) -> None:
    hosts = ("first", "second")
    pair = replace(job(tmp_path, "fsdp on 2"), hosts=hosts)
    written, without_the_other = compute(pair, pair)
    assert_same_curve(written, alone)
    passed_over = "passed over checkpoint step-00000004: __1_0.distcp is missing"
    assert passed_over in without_the_other.output
    assert_same_curve(without_the_other, alone)
    # what SageMaker does between two jobs, by way of S3
    for one, other in (hosts, hosts[::-1]):
        shutil.copytree(tmp_path / one, tmp_path / other, dirs_exist_ok=True)
    for host in hosts:
        shutil.rmtree(tmp_path / host / "step-00000004")
    (resumed,) = compute(pair)
    assert "resumed at step=2 " in resumed.output
    assert_same_curve(resumed, alone)


@pytest.fixture(scope="module")
def undisturbed(compute: Compute, tmp_path_factory: pytest.TempPathFactory) -> Result:
    (result,) = compute(longer_job(tmp_path_factory.mktemp("undisturbed"), "alone"))
    assert result.status == 0, result.output
    return result


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_a_job_killed_at_five_moments_has_the_curve_of_an_undisturbed_one(
    undisturbed: Result, compute: Compute, tmp_path: Path, seed: int
) -> None:
    moments = random.Random(seed)

    def killed() -> Job:
        shape = moments.choice(list(SHAPES))
        rank = moments.choice([None, *range(SHAPES[shape][0])])
        moment = Signal(signal.SIGKILL, moments.randint(1, 6), moments.uniform(0, 0.1), rank)
        return longer_job(tmp_path, shape, moment)

    *kills, last = compute(
        *(killed() for _ in range(5)),
        longer_job(tmp_path, moments.choice(list(SHAPES))),
    )
    for each in kills:
        assert -signal.SIGKILL in each.statuses
        assert 0 not in each.statuses
        assert_part_of_curve(each, undisturbed)
    assert_same(last, undisturbed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_a_job_stopped_at_five_moments_goes_on_with_other_ranks_and_loses_no_step(
    undisturbed: Result, compute: Compute, tmp_path: Path, seed: int
) -> None:
    moments, shapes = random.Random(seed), ["alone"]
    while len(shapes) < 7:
        here = SHAPES[shapes[-1]][0]
        shapes.append(moments.choice([name for name in SHAPES if SHAPES[name][0] != here]))

    def stopped(shape: str) -> Job:
        rank = moments.choice([None, *range(SHAPES[shape][0])])
        moment = Signal(signal.SIGTERM, moments.randint(1, 10), moments.uniform(0, 0.005), rank)
        return job(tmp_path, shape, moment, steps=100, checkpoint_every=100)

    *jobs, last = compute(
        *(stopped(each) for each in shapes[1:-1]), longer_job(tmp_path, shapes[-1])
    )
    for each in jobs:
        assert set(each.statuses) == {STOPPED}, each.output
        assert_part_of_curve(each, undisturbed)
    for before, after in itertools.pairwise([*jobs, last]):
        assert min(after.curve) == max(before.curve) + 1
    assert_same(last, undisturbed)


SCRIPT = Path(__file__).with_name("scripts") / "measure_and_serve.py"
TEXT = b"The shoal turns as one. " * 5


SEND_TEXT = 'send {"inputs": TEXT}, a text without zero bytes or lone surrogates'
REFUSALS = [
    *3 * [SEND_TEXT],
    "there is no parameter 'top_k'; there are: max_new_tokens, temperature, seed",
    "parameter max_new_tokens must be a whole number from 1 to 1024, not 0",
    "parameter temperature must be 0, or a number from 0.001 to 10, not -1",
    "parameter temperature must be 0, or a number from 0.001 to 10, not 1e-310",
    "parameter seed must be a whole number from 0 to 2^63 - 1, not True",
    "stream must be true or false, not 1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measured")


@pytest.fixture(scope="module")
def results(runtime: Runtime, folder: Path) -> dict[str, Any]:
    return runtime.answer(runtime.alone(SCRIPT, folder, folder / "results.json"), folder)


def test_every_byte_is_predicted_once_after_half_a_context(results: dict[str, Any]) -> None:
    assert len(results["windows"]) == len(TEXT)
    assert results["windows"] == pytest.approx(results["one_by_one"], rel=1e-4)
    assert results["of_a_large_vocabulary"] == pytest.approx(results["windows"], rel=1e-4)
    assert results["of_zeros"]["bits_per_byte"] == pytest.approx(8)  # it knows nothing


def test_the_report_has_peers_and_the_digests_of_all(results: dict[str, Any], folder: Path) -> None:
    metrics = {name: each["value"] for name, each in results["report"]["metrics"].items()}
    xz = lzma.compress(TEXT, preset=9 | lzma.PRESET_EXTREME)
    assert metrics["bytes"] == len(TEXT)
    assert metrics["gzip_bits_per_byte"] == 8 * len(gzip.compress(TEXT, 9)) / len(TEXT)
    assert metrics["xz_bits_per_byte"] == 8 * len(xz) / len(TEXT)
    archive = folder / "random" / "model.tar.gz"
    model = results["report"]["model"]
    with archive.open("rb") as stream:
        assert model["content_sha256"] == content_sha256(stream)
    with archive.open("rb") as stream:
        assert model["archive_sha256"] == sha256(stream)
    assert model["archive_composite_sha256"] == ""


def test_an_answer_is_its_seeds_and_names_the_model(results: dict[str, Any]) -> None:
    """A stream has the same text in pieces."""
    first, again, other = (each["generated_text"] for each in results["answers"])
    assert first == again != other
    kind, *pieces, last = results["streamed"]
    assert (kind, last) == ("application/jsonlines", results["answers"][0])
    assert len(pieces) > 1
    assert "".join(piece["token"]["text"] for piece in pieces) == first
    assert last["model"] == {
        "training_job_name": "job-of-the-test",
        "content_sha256": results["report"]["model"]["content_sha256"],
    }


def test_a_bad_request_is_told_what_to_send(results: dict[str, Any]) -> None:
    not_json, *others = results["refusals"]
    assert not_json.startswith("the request is not JSON: ")
    assert others == REFUSALS
    assert results["csv"] == "content type 'text/csv' is not supported; send application/json"
