"""What a job says of where its time goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.training_code.language.jobs import SMALL, Compute, Job, Result

PARTS = ["data", "forward", "backward", "optimizer", "metrics", "checkpoint", "other"]


def test_goodput_counts_from_the_first_start_and_a_profile_names_the_parts_of_a_step(
    alone: Result, compute: Compute, tmp_path: Path
) -> None:
    shutil.copytree(alone.job.folder / "checkpoints", tmp_path / "checkpoints")
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000004")
    summary = tmp_path / "checkpoints" / "step-00000002" / "checkpoint.json"
    content = json.loads(summary.read_text())
    assert 0 < content["productive_s"] <= content["trained_s"]
    content["first_started_at"] -= 1_000_000
    content["productive_s"] = 750_000
    summary.write_text(json.dumps(content))
    (resumed,) = compute(Job(tmp_path, SMALL | {"profile-steps": 1}))
    assert resumed.goodput == pytest.approx([0.75, 0.75], abs=0.01)
    assert all(share < 1 for share in alone.goodput)
    *parts, whole = resumed.parts_ms
    assert parts == PARTS
    assert whole == "whole"
    sum_ms = sum(resumed.parts_ms[part] for part in PARTS)
    assert resumed.parts_ms["whole"] == pytest.approx(sum_ms, abs=0.1)
    assert min(resumed.parts_ms[part] for part in PARTS[:6]) > 0
