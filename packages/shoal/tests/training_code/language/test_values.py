"""Rate, clipping, operations and utilization have the values that their formulas say."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.repository import CHECKOUT
from tests.training_code.language.jobs import SMALL, Compute, Job, Result

SCRIPT = Path(__file__).with_name("scripts") / "answer_values.py"
PLAN = CHECKOUT / "training_code" / "language" / "plan.py"
_LINE = re.compile(r"tokens_per_second=(\S+) mfu=(\S+) .* world_size=(\d+)$", re.MULTILINE)
_PEAK = re.compile(r" peak_flops_per_rank=(\S+) ")


@pytest.fixture(scope="module")
def answers(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("values")
    return runtime.answer(runtime.alone(SCRIPT, folder / "answers.json"), folder)


def test_the_rate_warms_up_on_a_line_and_falls_along_a_cosine(answers: dict[str, Any]) -> None:
    """By steps or by time, whichever ends first."""
    # at 0, 0.025, 0.05, 0.5, 0.525 and 1; a half is 9/19 of the way down
    shares = [0.05, 0.525, 1, 0.541290, 0.5, 0]
    assert answers["shares"] == pytest.approx(shares, abs=1e-6)
    half = pytest.approx(2 * 0.541290, abs=2e-6)
    assert answers["rates"] == {
        "half of the steps": half,
        "half of the time": half,
        "later by time than by steps": half,
        "more time than there was": 0,
    }


def test_gradients_are_clipped_to_a_norm_of_one(answers: dict[str, Any]) -> None:
    """Those with a lower norm stay as they are."""
    long, short = answers["clipped"]["long"], answers["clipped"]["short"]
    assert long["norm"] == 13
    assert long["changes"][0] == pytest.approx([-3 / 13, -4 / 13], rel=1e-6)
    assert long["changes"][1] == pytest.approx([-12 / 13], rel=1e-6)
    assert short["norm"] == pytest.approx(0.5, rel=1e-15)
    assert short["changes"] == [[-0.3, 0], [-0.4]]


def test_operations_of_a_token_follow_from_the_weights(answers: dict[str, Any]) -> None:
    shape = SimpleNamespace(**run_path(str(PLAN))).Shape
    assert answers["flops"]["2 256"] == 6 * 1_770_752 + 12 * 2 * 256 * 256
    tied, untied = shape.of_depth(1), shape.of_depth(24)
    assert answers["flops"]["1 8"] == 6 * tied.weights + 12 * tied.hidden_size * 8
    multiplied = untied.weights - untied.vocab_size * untied.hidden_size
    assert answers["flops"]["24 2048"] == 6 * multiplied + 12 * 24 * untied.hidden_size * 2048


def test_utilization_is_what_rate_operations_and_peak_of_the_log_give(
    answers: dict[str, Any], alone: Result, compute: Compute, tmp_path: Path
) -> None:
    (pair,) = compute(Job(tmp_path, SMALL, ranks=2))
    for result, ranks in ((alone, 1), (pair, 2)):
        (peak,) = map(float, _PEAK.findall(result.output))
        lines = [tuple(map(float, line)) for line in _LINE.findall(result.output)]
        assert [world_size for _, _, world_size in lines] == [ranks] * 4
        for rate, mfu, _ in lines:
            expected = rate * answers["flops"]["1 8"] / (peak * ranks)
            assert mfu == pytest.approx(expected, rel=0.01, abs=1e-4)  # of three and four digits
