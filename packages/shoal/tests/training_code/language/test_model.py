"""The transformer computes Llama's formulas, and its files keep every bit.

The reference is in scripts/answer_questions.py: plain formulas, written without the model's code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.training_code.language.jobs import TOLERANCE

SCRIPT = Path(__file__).with_name("scripts") / "answer_questions.py"


@pytest.fixture(scope="module")
def answers(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("questions")
    return runtime.answer(runtime.alone(SCRIPT, folder, folder / "answers.json"), folder)


def test_logits_are_those_of_the_plain_formulas(answers: dict[str, Any]) -> None:
    assert max(answers["differences"]) < TOLERANCE


def test_attention_by_products_gathers_what_torchs_kernel_does(answers: dict[str, Any]) -> None:
    assert answers["products"] < TOLERANCE


def test_a_norm_is_torchs_to_one_bit(answers: dict[str, Any]) -> None:
    exact, rounded = answers["norms"]
    assert (exact < TOLERANCE, rounded <= 2**-7) == (True, True)


def test_a_model_of_an_earlier_run_is_removed_whole(answers: dict[str, Any]) -> None:
    assert answers["left of a model"] == ["notes.txt"]


def test_ranks_that_mpirun_started_alone_are_refused(answers: dict[str, Any]) -> None:
    assert answers["without smddprun"].startswith("mpirun started this process without smddprun")


def test_a_saved_model_has_the_same_weights(answers: dict[str, Any]) -> None:
    assert answers["same weights"]


def test_a_seed_completes_a_prompt_in_one_way(answers: dict[str, Any]) -> None:
    first, again, other, likeliest, likeliest_of_other = answers["texts"]
    assert (first == again, first == other, likeliest == likeliest_of_other) == (True, False, True)


def test_depth_sets_all_sizes(answers: dict[str, Any]) -> None:
    assert answers["depths"] == {"2": 1_770_752, "16": 873_007_104, "32": 6_981_685_248}
    assert answers["wrong depth"] == "depth 65 is not between 1 and 64"


def test_a_model_that_cannot_be_read_or_kept_is_refused(answers: dict[str, Any]) -> None:
    assert "holds a damaged model: model.safetensors has " in answers["cut"]
    assert "holds no model: config.json is missing" in answers["nothing"]
    assert "is not finite, no model is saved" in answers["not finite"]


def test_ranks_that_share_a_batch_learn_what_one_would(answers: dict[str, Any]) -> None:
    assert answers["split"]


def test_an_epoch_has_each_sequence_once_and_the_next_one_others(answers: dict[str, Any]) -> None:
    assert answers["shifted"]
    assert answers["different"] == answers["sequences"]
    assert not answers["next epoch"]


def test_documents_are_packed_in_the_order_of_their_files(answers: dict[str, Any]) -> None:
    assert bytes(answers["row"]) == "\0one\0två\0drei".encode()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("utf-8.txt", "utf-8.txt is not UTF-8 at byte 2: convert it"),
        ("zero.txt", "zero.txt has a zero byte"),
        ("no-text.jsonl", 'no-text.jsonl line 2 has no string "text"'),
        ("no-json.jsonl", "no-json.jsonl line 1 is not JSON"),
        ("short.txt", "has 6 tokens of text, --context 16 needs 32"),
        ("empty.txt", "has no *.txt or *.jsonl with text"),
        ("no folder", "there is no folder"),
    ],
)
def test_what_is_wrong_with_a_text_is_said(
    answers: dict[str, Any], name: str, message: str
) -> None:
    assert message in answers["errors"][name]
