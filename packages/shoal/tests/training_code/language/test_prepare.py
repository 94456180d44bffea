"""The script that writes the text, with the botocore of the lock and with text of one's own."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.repository import CHECKOUT

SCRIPT = CHECKOUT / "training_code" / "language" / "prepare.py"


@pytest.fixture
def prepare() -> ModuleType:
    """The script as a module of its own, so that a test may change it."""
    spec = importlib.util.spec_from_file_location("language_prepare", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def paragraphs(folder: Path) -> set[str]:
    """Return every paragraph below a folder, without the name that begins it."""
    texts = [file.read_text() for file in folder.iterdir()]
    assert texts
    return {part.partition(": ")[2].strip() for text in texts for part in text.split("\n\n")}


def test_the_documentation_is_the_measured_one_and_the_services_are_apart(
    prepare: ModuleType, tmp_path: Path
) -> None:
    assert prepare.main(["--out", str(tmp_path)]) is None
    assert {file.stem for file in (tmp_path / "test").iterdir()} == set(prepare.TEST)
    assert paragraphs(tmp_path / "train").isdisjoint(paragraphs(tmp_path / "test"))


def test_another_documentation_is_not_written(
    prepare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "TRAIN", ("sqs",))
    wrong = prepare.main(["--out", str(tmp_path)])
    assert f", not {prepare.SHA256['train']};" in wrong
    assert wrong.endswith("measure again and write the new sums into prepare.py")
    assert list(tmp_path.iterdir()) == []


def test_html_becomes_a_line_for_each_paragraph_and_item(prepare: ModuleType) -> None:
    text = "<p>A <b>bold</b>\n   word.</p><ul> <li><p>&lt;one&gt;</p></li><li>two</li></ul>"
    assert prepare.plain_text(text) == "A bold word.\n<one>\ntwo"


def test_each_tenth_own_document_is_for_the_test(prepare: ModuleType, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "old").mkdir(parents=True)
    (mine / "a.txt").write_text("first\n")
    (mine / "a.jsonl").write_text('{"text": ""}\n')
    (mine / "old" / "b.jsonl").write_text("".join(f'{{"text": "é{n}"}}\n' for n in range(11)))
    (mine / "notes.md").write_text("no document")
    assert prepare.main(["--out", str(tmp_path), "--text", str(mine)]) is None
    train, test = (
        [json.loads(line)["text"] for line in (tmp_path / name / "text.jsonl").open()]
        for name in ("train", "test")
    )
    assert test == ["first\n", "é9"]
    assert train == [f"é{n}" for n in (*range(9), 10)]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.txt", b"na\xefve", "a.txt is not UTF-8 at byte 2: convert it"),
        ("a.jsonl", b'{"text": "x"}\n{', "a.jsonl line 2 is not JSON: "),
        ("a.jsonl", b'{"txt": "x"}', 'a.jsonl line 1 has no string "text"'),
        ("a.txt", b"x\0y", "a.txt has a zero byte, which ends a text here: remove it"),
        ("a.jsonl", b'\n{"text": "x\\u0000y"}', "a.jsonl line 2 has a zero byte, which ends"),
        (
            "a.jsonl",
            b'{"text": "\\ud800"}',
            "line 1 has a lone surrogate, which is no text: remove",
        ),
        ("a.jsonl", b"[" * 100_000, "a.jsonl line 1 is not JSON: "),
        ("a.txt", b"alone", "has 1 documents in *.txt and *.jsonl: at least 2 are needed"),
    ],
)
def test_text_that_cannot_be_used_is_named_and_nothing_is_written(
    prepare: ModuleType, tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_bytes(content)
    wrong = prepare.main(["--out", str(tmp_path / "out"), "--text", str(tmp_path / "mine")])
    assert complaint in wrong
    assert not (tmp_path / "out").exists()


def test_a_later_run_leaves_nothing_of_an_earlier_one_and_removes_nothing_else(
    prepare: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    out = tmp_path / "out"
    assert prepare.main(["--out", str(out)]) is None
    assert prepare.main(["--out", str(out), "--text", str(tmp_path / "mine")]) is None
    left = sorted(file.relative_to(out).as_posix() for file in out.glob("*/*"))
    assert left == ["test/text.jsonl", "train/text.jsonl"]
    (out / "train" / "tokenizer.json").write_text("mine")
    wrong = prepare.main(["--out", str(out)])
    assert wrong == (
        f"{out}/train/tokenizer.json was not written by this script, and would be learned from too:"
        " move it, or take another --out"
    )
    assert left == sorted(
        file.relative_to(out).as_posix() for file in out.glob("*/*") if file.suffix == ".jsonl"
    )


def test_channels_are_not_written_into_the_text(prepare: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "text.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    for texts in (tmp_path, tmp_path / "train"):
        wrong = prepare.main(["--out", str(tmp_path), "--text", str(texts)])
        assert (
            wrong == f"the channels of --out {tmp_path} would lie in --text {texts}: take another"
        )
