"""A byte-level BPE in the place of bytes: trained by the package tokenizers, read without it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.repository import CHECKOUT

SCRIPTS = Path(__file__).with_name("scripts")
PREPARE = CHECKOUT / "training_code" / "language" / "prepare.py"


@pytest.fixture(scope="module")
def answers(
    runtime: Runtime, text: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("tokens")
    command = runtime.alone(SCRIPTS / "answer_tokenizer.py", text, folder, folder / "answers.json")
    return runtime.answer(command, folder)


def test_merges_apply_in_their_order_within_words(answers: dict[str, Any]) -> None:
    assert answers["words"] == ["t", "he", " the", " ", "aa", "a"]
    assert answers["split"] == ["a", " ", "t", "he", "�", "�"]


def test_any_text_comes_back_and_none_is_the_end_of_a_text(answers: dict[str, Any]) -> None:
    assert answers["odd"]


def test_documents_stand_behind_the_end_of_a_text(answers: dict[str, Any]) -> None:
    t, he, the, space, a, aa = 1 + ord("t"), 257, 259, 1 + ord(" "), 1 + ord("a"), 260
    assert answers["row"] == [0, t, he, the, 0, t, he, space, aa, a]


def test_bits_are_counted_per_byte_whatever_a_token_is(answers: dict[str, Any]) -> None:
    measured, expected = answers["measured"]
    assert measured == pytest.approx(expected)


def test_a_model_is_served_with_its_tokenizer(answers: dict[str, Any]) -> None:
    assert answers["size"] == 261
    assert answers["answer"]
    assert answers["files"] == [
        "code/common/__init__.py",
        "code/common/archive.py",
        "code/inference.py",
        "code/model.py",
        "code/tokenizer.py",
        "config.json",
        "model.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_tokenizer_that_cannot_be_read_is_refused(answers: dict[str, Any]) -> None:
    unigram, metaspace, split, without, larger, another, fitting, *ends = answers["errors"]
    assert "is no byte-level BPE, as `prepare.py --tokenizer bpe` writes" in unigram
    assert "cuts text by Metaspace, which is not read here" in metaspace
    assert "is no byte-level BPE" in split
    assert "has no tokenizer.json, and a model of 261 tokens does not read bytes" in without
    assert "tokenizer.json has 1000 tokens, and the model 261: put there the file that" in larger
    assert "is not the base's, which reads text in its own tokens: remove the file" in another
    assert fitting == ""
    of_bytes, of_another, of_its_own = ends
    assert of_bytes == (
        "config.json has eos_token_id 2: a model that reads bytes needs 0, another one its"
        " tokenizer.json"
    )
    assert "tokenizer.json has the text b'<|endoftext|>' as token 0, by which the" in of_another
    assert of_its_own == ""


@pytest.fixture(scope="module")
def compared(peers: Runtime, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    folder = tmp_path_factory.mktemp("compared")
    (folder / "pages").mkdir()
    for page in (CHECKOUT / "docs").glob("*.md"):
        shutil.copyfile(page, folder / "pages" / f"{page.stem}.txt")
    options: list[str | Path] = [
        "--text",
        folder / "pages",
        "--tokenizer",
        "bpe",
        "--vocab-size",
        "1000",
    ]
    prepared = peers.run(peers.alone(PREPARE, "--out", folder, *options), folder)
    assert prepared.returncode == 0, prepared.output
    script = SCRIPTS / "compare_with_tokenizers.py"
    return peers.answer(peers.alone(script, folder / "train", folder / "answers.json"), folder)


@pytest.mark.nightly
def test_tokens_are_those_of_the_package(compared: dict[str, bool]) -> None:
    same = {"as prepared": True, "as Llama 3": True, "as SmolLM": True, "as served": True}
    assert compared.items() >= same.items()
