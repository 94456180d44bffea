"""Adapters are trained the same way however they are sharded, and nothing else is."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
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

SCRIPTS = Path(__file__).with_name("scripts")
LORA: Options = SMALL | {
    "lora-rank": 2,
    "lora-targets": "q_proj,v_proj,down_proj",
    "learning-rate": "0.02",
    "seed": 2,
}
WAYS, MORE_WAYS = ways("lora"), ways("lora, nightly")


@pytest.fixture(scope="module")
def base(alone: Result) -> Path:
    """Return the base model, as a folder."""
    return alone.job.folder / "model"


@pytest.fixture(scope="module")
def packed_base(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a channel with the base as a training job leaves it."""
    folder = tmp_path_factory.mktemp("packed")
    with tarfile.open(folder / "model.tar.gz", "w:gz") as tar:
        tar.add(base, ".")
    return folder


@pytest.fixture(scope="module")
def results(
    base: Path,
    packed_base: Path,
    compute: Compute,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("adapted")
    channels = {name: packed_base if name == "ddp" else base for name in WAYS}
    jobs = [
        Job(folder / name, LORA | {"base-dir": str(channels[name])} | options, ranks)
        for name, (ranks, options) in WAYS.items()
    ]
    return dict(zip(WAYS, compute(*jobs), strict=True))


@pytest.fixture(scope="module")
def answers(
    base: Path,
    results: dict[str, Result],
    runtime: Runtime,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("asked")
    model, file = results["alone"].job.folder / "model", folder / "answers.json"
    return runtime.answer(
        runtime.alone(SCRIPTS / "answer_lora.py", base, model, folder, file), folder
    )


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_ranks_train_the_adapters_of_one(results: dict[str, Result], way: str) -> None:
    one, two = results["alone"], results[way]
    assert one.curve[4] < one.curve[1] - 0.01
    assert_same(two, one)


def test_the_first_loss_is_the_bases(results: dict[str, Result]) -> None:
    loss = results["alone"].curve[1]
    assert results["all weights"].curve == {1: pytest.approx(loss, abs=TOLERANCE)}


def test_only_adapters_have_gradients(results: dict[str, Result], answers: dict[str, Any]) -> None:
    kept, size = results["alone"].kept, 8 * answers["numbers"]
    assert (kept["gradients"], kept["optimizer"]) == (size, 2 * size)
    assert results["fsdp"].kept == {name: each // 2 for name, each in kept.items()}


def test_the_merged_model_computes_what_base_and_adapters_do(answers: dict[str, Any]) -> None:
    assert answers["difference of logits"] < TOLERANCE
    assert answers["same as the formula"]


def test_only_the_targets_change(answers: dict[str, Any]) -> None:
    places = ("mlp.down_proj", "self_attn.q_proj", "self_attn.v_proj")
    assert answers["changed"] == [f"model.layers.0.{place}.weight" for place in places]


def test_the_adapter_says_what_peft_asks(answers: dict[str, Any]) -> None:
    settings = answers["settings"]
    assert (settings["peft_type"], settings["r"], settings["lora_alpha"]) == ("LORA", 2, 16.0)
    assert settings["target_modules"] == ["down_proj", "q_proj", "v_proj"]
    assert answers["names"][:2] == [
        "model.layers.0.mlp.down_proj.lora_A.weight",
        "model.layers.0.mlp.down_proj.lora_B.weight",
    ]


def test_a_checkpoint_has_the_adapters_and_goes_on_with_the_same_base_only(
    base: Path, results: dict[str, Result], compute: Compute, tmp_path: Path
) -> None:
    before = results["fsdp"].job
    shutil.copytree(before.folder / "checkpoints", tmp_path / "same" / "checkpoints")
    shutil.copytree(base, tmp_path / "other_base")
    with (tmp_path / "other_base" / "model.safetensors").open("r+b") as weights:
        weights.seek(-8, 2)
        weights.write(bytes(8))
    same = Job(tmp_path / "same", LORA | {"base-dir": str(base)})
    shutil.rmtree(same.checkpoints[-1])
    shutil.copytree(same.folder, tmp_path / "other")
    (size,) = (sum(file.stat().st_size for file in each.iterdir()) for each in same.checkpoints)
    assert size < (base / "model.safetensors").stat().st_size / 2
    other = Job(tmp_path / "other", LORA | {"base-dir": str(tmp_path / "other_base")})
    whole = Job(other.folder, {name: LORA[name] for name in LORA if "lora" not in name})
    resumed, refused, without = compute(same, other, whole)
    assert "resumed at step=2" in resumed.output
    assert_same(resumed, results["alone"])
    assert refused.status == 1
    assert "is from a run with other settings: base_sha256 " in refused.output
    assert without.status == 1
    assert re.search(
        r"other settings: .*base_sha256 \w+ \(now None\), .*lora_rank ", without.output
    )


def test_options_that_cannot_be_are_refused(answers: dict[str, Any]) -> None:
    without_base, negative, unknown = answers["options"]
    assert without_base == (
        "--lora-rank needs a base model: name the channel in the environment's file"
        " (data: {channels: {base: {}}}), or give --base-dir"
    )
    assert negative == "argument --lora-rank: -1 is not a positive number"
    assert "there is no 'query' among q_proj, k_proj, v_proj" in unknown


def test_a_base_that_computes_something_else_is_refused(answers: dict[str, Any]) -> None:
    nothing, rope, older, bias, kind, shape, incomplete = answers["bases"]
    assert nothing.endswith(
        "holds no base model: config.json is missing; put there config.json and"
        " model.safetensors, or the model.tar.gz of a training job"
    )
    assert rope == "config.json has rope_type 'llama3': only 'default' is computed here"
    assert older == "config.json has rope_type 'linear': only 'default' is computed here"
    assert bias == "config.json has attention_bias True: only False is computed here"
    assert kind == "config.json has model_type 'qwen3': only 'llama' is computed here"
    assert shape.startswith("model.safetensors is not the model that config.json describes: ")
    assert incomplete == "config.json lacks hidden_size"
    assert answers["from transformers"]


@pytest.mark.nightly
@pytest.mark.parametrize("way", MORE_WAYS)
def test_more_ways_train_the_adapters_of_one(
    base: Path, results: dict[str, Result], compute: Compute, tmp_path: Path, way: str
) -> None:
    ranks, options = MORE_WAYS[way]
    (result,) = compute(Job(tmp_path, LORA | {"base-dir": str(base)} | options, ranks))
    assert_same(result, results["alone"])


@pytest.mark.nightly
def test_peft_reads_the_adapter_and_computes_the_same(
    base: Path, results: dict[str, Result], peers: Runtime, tmp_path: Path
) -> None:
    model, file = results["alone"].job.folder / "model", tmp_path / "answers.json"
    command = peers.alone(SCRIPTS / "compare_with_peft.py", base, model, file)
    answers = peers.answer(command, tmp_path, {"HF_HUB_OFFLINE": "1"})
    assert answers["learned"] > 0.05
    assert answers["difference"] < 2e-5  # transformers computes norms and angles in float32
