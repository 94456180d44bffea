"""In which precision a job computes when it may choose: the one that is faster on its CPUs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from local_kit.runtime import Runtime
from tests.training_code.training import CODE, Job

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).with_name("scripts") / "choose_precision.py"


EXPECTED = {
    "bf16 is faster on the second rank, and in sum": "bf16",
    "bf16 is slower on the second rank, and in sum": "fp32",
    "bf16 is 2 % faster": "fp32",  # noise
    "the second rank has no bf16": "fp32",
    "untouched": "yes",  # weights and gradients
}
"""Case -> what each of two ranks chooses."""


def test_the_faster_precision_of_all_ranks_is_chosen(runtime: Runtime, tmp_path: Path) -> None:
    outcome = runtime.run(runtime.torchrun(2, SCRIPT, CODE, tmp_path), tmp_path)
    assert outcome.returncode == 0, outcome.output
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert ranks == [EXPECTED, EXPECTED]


def test_the_choice_is_in_log_and_metadata(own: Job) -> None:
    job = replace(own, options=("--epochs", "1"))
    (line,) = [each for each in job.run().output.splitlines() if each.startswith("precision=")]
    metadata = json.loads((job.model_dir / "model.json").read_text())
    assert line.startswith(f"precision={metadata['precision']}, ")
