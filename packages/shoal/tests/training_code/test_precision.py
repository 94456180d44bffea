"""In which precision a job computes when it may choose: the one that is faster on its CPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from tests.training_code.training import CODE, Job

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).with_name("scripts") / "choose_precision.py"


@pytest.fixture(scope="module")
def choices(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what each of two ranks chooses, by case."""
    folder = tmp_path_factory.mktemp("choices")
    outcome = runtime.run(runtime.torchrun(2, SCRIPT, CODE, folder), folder)
    assert outcome.returncode == 0, outcome.output
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]
    return {case: [rank[case] for rank in ranks] for case in ranks[0]}


def test_the_faster_precision_of_all_ranks_together_is_chosen(
    choices: dict[str, list[str]],
) -> None:
    assert choices["bf16 is faster on the second rank, and in sum"] == ["bf16", "bf16"]
    assert choices["bf16 is slower on the second rank, and in sum"] == ["fp32", "fp32"]


def test_a_gain_that_is_noise_is_none(choices: dict[str, list[str]]) -> None:
    assert choices["bf16 is 2 % faster"] == ["fp32", "fp32"]


def test_a_rank_without_instructions_for_bf16_decides_for_all(
    choices: dict[str, list[str]],
) -> None:
    assert choices["the second rank has no bf16"] == ["fp32", "fp32"]


def test_measuring_leaves_weights_and_gradients_as_they_were(
    choices: dict[str, list[str]],
) -> None:
    assert choices["untouched"] == ["yes", "yes"]


def test_the_choice_is_in_the_log_and_in_the_models_metadata(
    runtime: Runtime, dataset: Path, tmp_path: Path
) -> None:
    job = Job(runtime, dataset, tmp_path, options=("--epochs", "1"))
    (line,) = [each for each in job.run().output.splitlines() if each.startswith("precision=")]
    metadata = json.loads((job.model_dir / "model.json").read_text())
    assert line.startswith(f"precision={metadata['precision']}, ")
