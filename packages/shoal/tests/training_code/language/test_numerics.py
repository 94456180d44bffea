"""The language model's numbers: its network, other libraries' answers, values and speed.

Every way to shard computes the same steps, and what a rank keeps is its share of the whole, in
float64, where the order of additions is all that differs. The transformer computes Llama's
formulas; the reference is in scripts/answer_questions.py, written without the model's code.
"""

import json
import re
import shutil
import time
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest

from local_kit.runtime import Runtime
from local_kit.tables import table
from tests.repository import CHECKOUT
from tests.training_code.language.jobs import (
    SMALL,
    TOLERANCE,
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


SCRIPT = Path(__file__).with_name("scripts") / "answer_questions.py"


ZERO = pytest.approx(0, abs=TOLERANCE)
EXPECTED = {
    "products": ZERO,  # what attention by products gathers, to torch's kernel
    "norms": [ZERO, pytest.approx(0, abs=2**-7)],  # to one bit of torch's in bf16
    "with caches": ZERO,  # logits of one token after the other
    "same weights": True,  # of a saved model
    "depths": {"2": 1_770_752, "16": 873_007_104, "32": 6_981_685_248},  # depth sets all sizes
    "wrong depth": "depth 65 is not between 1 and 64",
    "split": True,  # ranks that share a batch learn what one would
    "shifted": True,
    "next epoch": False,  # has other sequences
    "row": [*"\0one\0två".encode()],  # documents in the order of their files
}
REFUSED, TEXTS = table(__file__, "cases.yaml")["answers"].values()


@pytest.fixture(scope="module")
def answers(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("answers")
    return runtime.answer(runtime.alone(SCRIPT, folder, folder / "answers.json"), folder)


def test_the_model_is_llamas_and_refuses_others(answers: dict[str, Any]) -> None:
    assert {name: answers[name] for name in EXPECTED} == EXPECTED
    assert max(answers["differences"]) < TOLERANCE  # of logits, to the plain formulas
    assert answers["different"] == answers["sequences"]  # in an epoch
    first, again, other, likeliest, likeliest_of_other = answers["texts"]
    # a seed completes a prompt in one way
    assert (first == again, first == other, likeliest == likeliest_of_other) == (True, False, True)
    assert [text for name, text in REFUSED.items() if text not in answers[name]] == []
    assert [text for name, text in TEXTS.items() if text not in answers["errors"][name]] == []


COMPARE = Path(__file__).with_name("scripts") / "compare_with_transformers.py"
TOLERATED = 2e-5
"""In float64 too: transformers computes norms and the angles of positions in float32."""


@pytest.fixture(scope="module")
def compared(
    peers: Runtime, alone: Result, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(alone.job.folder / "model", folder / "tied")
    file = folder / "answers.json"
    return peers.answer(peers.alone(COMPARE, folder, file), folder, {"HF_HUB_OFFLINE": "1"})


@pytest.mark.nightly
@pytest.mark.parametrize("model", ["tied", "untied"])
def test_transformers_computes_the_same_logits(compared: dict[str, Any], model: str) -> None:
    answer = compared[model]
    assert (answer["class"], answer["loading"]) == ("LlamaForCausalLM", {})
    assert answer["spread"] > 0.1, answer
    assert max(answer["float32"], answer["float64"]) < TOLERATED


PLAN = CHECKOUT / "training_code" / "language" / "plan.py"
_LINE = re.compile(r"tokens_per_second=(\S+) mfu=(\S+) .* world_size=(\d+)$", re.MULTILINE)
_PEAK = re.compile(r" peak_flops_per_rank=(\S+) ")


def test_the_rate_warms_up_on_a_line_and_falls_along_a_cosine(answers: dict[str, Any]) -> None:
    """By steps or by time, whichever ends first."""
    # at 0, 0.025, 0.05, 0.5, 0.525 and 1; a half is 9/19 of the way down
    shares = [0.05, 0.525, 1, 0.541290, 0.5, 0]
    assert answers["shares"] == pytest.approx(shares, abs=1e-6)
    assert answers["rates"] == pytest.approx([2 * 0.05, 2 * 0.541290], abs=2e-6)


def test_gradients_are_clipped_to_a_norm_of_one(answers: dict[str, Any]) -> None:
    """Those with a lower norm stay as they are."""
    long, short = answers["clipped"]["long"], answers["clipped"]["short"]
    assert long["norm"] == 13
    assert long["changes"][0] == pytest.approx([-3 / 13, -4 / 13], rel=1e-6)
    assert long["changes"][1] == pytest.approx([-12 / 13], rel=1e-6)
    assert short["norm"] == pytest.approx(0.5, rel=1e-15)
    assert short["changes"] == [[-0.3, 0], [-0.4]]


def test_operations_of_a_token_follow_from_the_weights(answers: dict[str, Any]) -> None:
    shape = SimpleNamespace(**run_path(str(PLAN))).Config
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


PARTS = ["data", "forward", "backward", "optimizer", "metrics", "checkpoint", "other"]


def test_goodput_counts_from_the_first_start_and_a_profile_names_the_parts_of_a_step(
    alone: Result, compute: Compute, tmp_path: Path
) -> None:
    shutil.copytree(alone.job.folder / "checkpoints", tmp_path / "checkpoints")
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000004")
    summary = tmp_path / "checkpoints" / "step-00000002" / "checkpoint.json"
    content = json.loads(summary.read_text())
    assert 0 < content["productive_s"] <= time.time() - content["first_started_at"]
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
