"""Answers what the tests of tokenizers ask: `answer_tokenizer.py TEXT FOLDER FILE`.

TEXT is a channel to learn from. The tokenizer is written here, with four merges.
"""

from __future__ import annotations

import importlib
import json
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

CODE = Path(__file__).parents[6] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
import torch  # noqa: E402

# by name: for the type checker, these are another workload's
MODULES = ("base", "data", "evaluate", "inference", "model", "tokenizer", "train")
base, data, evaluate, inference, language, tokenizer, train = map(importlib.import_module, MODULES)

MERGES = (("h", "e"), ("Ġ", "t"), ("Ġt", "he"), ("a", "a"))
SPLIT = {"type": "Split", "pattern": {"Regex": r"\p{L}+|\s"}, "behavior": "Isolated"}
ENCODED = SPLIT | {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
ODD = "Straße ² \x1c\x85\u2003  naïve\n\n 1234 it's 'tis 漢字 <|endoftext|> 👩‍🚀"


def content(**changes: Any) -> dict[str, Any]:
    """Return a tokenizer.json."""
    names = ["<|endoftext|>", *tokenizer._characters(), *("".join(pair) for pair in MERGES)]
    return {
        "added_tokens": [{"id": 0, "content": names[0]}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {name: token for token, name in enumerate(names)},
            "merges": MERGES,
        },
    } | changes


def write(folder: Path, **changes: Any) -> Path:
    """Write a tokenizer.json, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(content(**changes)))
    return folder


def words(bpe: Any, text: str) -> list[str]:
    """Return the text of each token."""
    return [bpe.decode([token]).decode(errors="replace") for token in bpe.encode(text)]


def measure(bpe: Any) -> dict[str, Any]:
    """Return what a model that knows nothing needs for a byte, and what it should need."""
    config = replace(language.Config.of_depth(1, 16), vocab_size=bpe.size)
    model = language.Transformer(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    row = b"\0the the\0the aaa"
    tokens = bpe.row(row, 0)
    values = evaluate.metrics(model, row, bpe)
    expected = (len(tokens) - 1) * math.log2(bpe.size) / (len(row) - 1)
    return {"measured": [values["bits_per_byte"], expected], "row": tokens.tolist()}


def serve(model: Path) -> dict[str, Any]:
    """Return an answer, and the files of the model that gives it."""
    served = inference.model_fn(str(model))
    body = json.dumps({"inputs": "the sh", "parameters": {"max_new_tokens": 5, "temperature": 0}})
    answer = inference.predict_fn(inference.input_fn(body, inference.JSON), served)
    files = sorted(path.relative_to(model).as_posix() for path in model.rglob("*.*"))
    return {"answer": answer["generated_text"], "files": files, "size": served.tokenizer.size}


def say_errors(model: Path, folder: Path) -> list[str]:
    """Return what is said of tokenizers that cannot be read, and of a base without its own."""
    shutil.copytree(model, folder / "base")
    (folder / "base" / "tokenizer.json").unlink()
    bpe = tokenizer.read_tokenizer(write(folder / "own"))
    other = tokenizer.read_tokenizer(write(folder / "other", truncation=None))
    same = train.require_same_tokenizer
    theirs = write(folder / "theirs", added_tokens=[{"id": 261, "content": "<|end|>"}])
    return [
        error(tokenizer.read_tokenizer, write(folder / "a", model={"type": "Unigram"})),
        error(tokenizer.read_tokenizer, write(folder / "b", pre_tokenizer={"type": "Metaspace"})),
        error(tokenizer.read_tokenizer, write(folder / "c", pre_tokenizer=SPLIT)),
        error(base.Base.read, folder / "base"),
        error(base.Base.read, write(folder / "base", added_tokens=[{"id": 999, "content": "x"}])),
        error(same, folder / "own", bpe, other),
        error(same, folder / "own", tokenizer.Bytes(), other) + error(same, folder, bpe, bpe),
        error(tokenizer.Bytes().row, b"\0a", 2),
        error(tokenizer.read_tokenizer(theirs).row, b"\0a", 0),
        error(tokenizer.read_tokenizer(theirs).row, b"\0a", 261),
    ]


def error(function: Any, *arguments: Any) -> str:
    """Return why a function raised ValueError."""
    try:
        function(*arguments)
    except ValueError as problem:
        return str(problem)
    return ""


if __name__ == "__main__":
    text, folder, file = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    channel = write(Path(shutil.copytree(text, folder / "train")))
    bpe = tokenizer.read_tokenizer(channel)
    splitting = {"type": "Sequence", "pretokenizers": [SPLIT, ENCODED]}
    options: dict[str, Any] = {"train-dir": channel, "model-dir": folder / "model"}
    options |= {"depth": 1, "context": 8, "batch-size": 2, "steps": 2}
    train.main([word for name, value in options.items() for word in (f"--{name}", str(value))], {})
    answers = {
        "words": words(bpe, "the the aaa"),
        "odd": bpe.decode(bpe.encode(ODD)).decode() == ODD and 0 not in bpe.encode(ODD),
        "split": words(
            tokenizer.Bpe(write(folder / "s", pre_tokenizer=splitting) / "tokenizer.json"), "a theé"
        ),
        "errors": say_errors(folder / "model", folder),
    }
    file.write_text(json.dumps(answers | measure(bpe) | serve(folder / "model")))
