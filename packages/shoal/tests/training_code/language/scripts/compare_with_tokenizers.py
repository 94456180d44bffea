"""Compares tokens with those of the package tokenizers: `compare_with_tokenizers.py FOLDER FILE`.

FOLDER has a tokenizer.json that prepare.py wrote beside its text. FILE gets, for it and for other
ways to cut text, whether both give the same tokens for documents and for characters drawn by
chance from all of Unicode 14; and whether transformers does with what a model is served with.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import unicodedata
from pathlib import Path
from typing import Any

CODE = Path(__file__).parents[6] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
from tokenizers import Regex, Tokenizer, pre_tokenizers  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

# by name: for the type checker, these are another workload's
data, ours = map(importlib.import_module, ("data", "tokenizer"))

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LEVEL, ENCODED = (pre_tokenizers.ByteLevel(False, use_regex=cuts) for cuts in (True, False))
CUTS: dict[str, Any] = {
    "as prepared": LEVEL,
    "as Llama 3": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), ENCODED]
    ),
    "as SmolLM": pre_tokenizers.Sequence([pre_tokenizers.Digits(True), LEVEL]),
}
COMMON = " \n\t'st0\x1c\x85\xa0\u3000²Ⅷ"


def texts(folder: Path) -> list[str]:
    """Return the documents, and characters drawn by chance."""
    draw = random.Random(1)
    known = [chr(code) for code in range(1, 0x110000) if known_before_unicode_15(chr(code))]
    odd = "".join(draw.choice((draw.choice(known), draw.choice(COMMON))) for _ in range(20_000))
    return [*data.read_channel(folder).decode().split("\0")[1:], odd]


def known_before_unicode_15(char: str) -> bool:
    """Return whether both know the character's category, as Python 3.11 does."""
    return unicodedata.category(char) not in ("Cn", "Cs")


def compare(folder: Path) -> dict[str, bool]:
    """Return by way of cutting whether all tokens are the same, and give the texts back."""
    same: dict[str, bool] = {}
    for name, cuts in CUTS.items():
        theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
        theirs.pre_tokenizer = cuts
        file = folder / f"{len(same)}.json"
        theirs.save(str(file))
        mine = ours.Bpe(file)
        same[name] = all(
            mine.encode(text) == theirs.encode(text).ids
            and mine.decode(mine.encode(text)) == text.encode()
            for text in texts(folder)
        )
    mine = ours.Bpe(folder / "tokenizer.json")
    (folder / "served").mkdir()
    mine.save(folder / "served")
    served = AutoTokenizer.from_pretrained(folder / "served")
    same["as served"] = all(
        served.encode(text) == mine.encode(text) and served.decode(served.encode(text)) == text
        for text in texts(folder)
    )
    return same


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(compare(Path(sys.argv[1]))))
