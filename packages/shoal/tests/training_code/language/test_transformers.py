"""transformers reads the folder of a model as its own Llama, and computes the same logits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.training_code.language.jobs import Result

SCRIPT = Path(__file__).with_name("scripts") / "compare_with_transformers.py"
TOLERANCE = 2e-5
"""In float64 too: transformers computes norms and the angles of positions in float32."""


@pytest.fixture(scope="module")
def answers(
    peers: Runtime, alone: Result, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(alone.job.folder / "model", folder / "tied")
    file = folder / "answers.json"
    return peers.answer(peers.alone(SCRIPT, folder, file), folder, {"HF_HUB_OFFLINE": "1"})


@pytest.mark.nightly
@pytest.mark.parametrize("model", ["tied", "untied"])
def test_transformers_computes_the_same_logits(answers: dict[str, Any], model: str) -> None:
    answer = answers[model]
    assert (answer["class"], answer["loading"]) == ("LlamaForCausalLM", {})
    assert answer["spread"] > 0.1, answer
    assert max(answer["float32"], answer["float64"]) < TOLERANCE
