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
    "row": [*"\0one\0två\0drei".encode()],  # documents in the order of their files
}
REFUSED = {
    "no sum": "smddp gives 0 as the sum of the numbers of 2 ranks: use --backend nccl",
    "without smddprun": "mpirun started this process without smddprun",
    "cut": "holds a damaged model: model.safetensors has ",
    "nothing": "holds no model: config.json is missing",
    "not finite": "is not finite, no model is saved",
}
TEXTS = {
    "utf-8.txt": "utf-8.txt is not UTF-8 at byte 2: convert it",
    "zero.txt": "zero.txt has a zero byte",
    "no-text.jsonl": 'no-text.jsonl line 2 has no string "text"',
    "no-json.jsonl": "no-json.jsonl line 1 is not JSON",
    "short.txt": "has 6 tokens of text, --context 16 needs 32",
    "empty.txt": "has no *.txt or *.jsonl with text",
    "no folder": "there is no folder",
}
"""What is wrong with a text -> what is said."""


def test_the_model_is_llamas_and_refuses_others(runtime: Runtime, tmp_path: Path) -> None:
    command = runtime.alone(SCRIPT, tmp_path, tmp_path / "answers.json")
    answers: dict[str, Any] = runtime.answer(command, tmp_path)
    assert {name: answers[name] for name in EXPECTED} == EXPECTED
    assert max(answers["differences"]) < TOLERANCE  # of logits, to the plain formulas
    assert answers["different"] == answers["sequences"]  # in an epoch
    first, again, other, likeliest, likeliest_of_other = answers["texts"]
    # a seed completes a prompt in one way
    assert (first == again, first == other, likeliest == likeliest_of_other) == (True, False, True)
    assert [text for name, text in REFUSED.items() if text not in answers[name]] == []
    assert [text for name, text in TEXTS.items() if text not in answers["errors"][name]] == []
