"""Tokens of text: bytes, or those of a byte-level BPE (Sennrich et al., arXiv 1508.07909).

A BPE is a `tokenizer.json` of the package tokenizers, by whose merges text is encoded here as the
package does it: AWS's images for PyTorch lack the package. Without the file a token is a byte.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import torch
from model import CONFIG_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from torch import Tensor

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""How tokenizers' ByteLevel cuts text into words, as GPT-2 did."""
_TRANSFORMERS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "clean_up_tokenization_spaces": False,
}
"""Without it, transformers takes Llama's own tokenizer for a model in Llama's layout."""
_CLASSES = re.compile(r"\\p\{[LN]\}|\\[sS]|\\.|[\[\]]")


class Bytes:
    """Text as the bytes of UTF-8."""

    size = 256
    sha256 = ""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return list(text.encode())

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Return the text that the tokens stand for; its last character may not be whole."""
        return bytes(tokens)

    def row(self, documents: bytes, end: int) -> Tensor:
        """Return all tokens of documents that stand after a zero byte each, `end` in its place.

        Raise ValueError if the model ends a text with another byte.
        """
        if end:
            raise ValueError(
                f"{CONFIG_FILE} has eos_token_id {end}: a model that reads bytes needs 0, another"
                f" one its {TOKENIZER_FILE}"
            )
        return torch.frombuffer(bytearray(documents), dtype=torch.uint8)

    def save(self, folder: Path) -> None:
        """Write what a model needs to be served: nothing."""


class Bpe:
    """Text as the words' parts that a tokenizer.json names.

    What stands for the end of a text there is never read out of a text.
    """

    def __init__(self, file: Path) -> None:
        """Read the file. Raise ValueError if it is no byte-level BPE."""
        self._file, self._content = file, file.read_bytes()
        self.sha256 = hashlib.sha256(self._content).hexdigest()
        values = json.loads(self._content)
        model = values["model"]
        if model["type"] != "BPE" or values["normalizer"]:
            raise ValueError(f"{file} is no byte-level BPE, as `prepare.py --tokenizer bpe` writes")
        self._patterns = [re.compile(_translated(each)) for each in _cuts(values, file)]
        byte_of = {char: byte for byte, char in enumerate(_characters())}
        vocabulary: dict[str, int] = model["vocab"]
        added = {each["content"]: each["id"] for each in values["added_tokens"]}
        self.size = max(*vocabulary.values(), *added.values()) + 1
        self._parts = {
            token: bytes(byte_of[char] for char in name)
            for name, token in vocabulary.items()
            if name not in added
        }
        self._tokens = {part: token for token, part in self._parts.items()}
        pairs = (each.split(" ") if isinstance(each, str) else each for each in model["merges"])
        self._merges = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(pairs)
        }
        self._whole_words = bool(model.get("ignore_merges"))
        self._word = lru_cache(maxsize=2**18)(self._merged)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        words = [text]
        for pattern in self._patterns:
            words = [part for word in words for part in _cut(pattern, word)]
        return [token for word in words for token in self._word(word)]

    def _merged(self, word: str) -> list[int]:
        part = word.encode()
        if self._whole_words and part in self._tokens:
            return [self._tokens[part]]
        tokens = [self._tokens[bytes([byte])] for byte in part]
        while pairs := self._merges.keys() & set(pairwise(tokens)):
            pair = min(pairs, key=self._merges.__getitem__)
            at = 0
            while at < len(tokens) - 1:
                if (tokens[at], tokens[at + 1]) == pair:
                    tokens[at : at + 2] = [self._merges[pair][1]]
                at += 1
        return tokens

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Return the text that the tokens stand for; its last character may not be whole."""
        return b"".join(self._parts.get(token, b"") for token in tokens)

    def row(self, documents: bytes, end: int) -> Tensor:
        """Return all tokens of documents that stand after a zero byte each, `end` in its place.

        Raise ValueError if that token stands for text.
        """
        if end in self._parts:
            raise ValueError(
                f"{self._file} has the text {self._parts[end]!r} as token {end}, by which the model"
                " ends a document: needed is one where that is an added token, as `prepare.py"
                " --tokenizer bpe` writes"
            )
        row = array("i")
        for document in documents.decode().split("\0")[1:]:
            row.append(end)
            row.extend(self.encode(document))
        return torch.frombuffer(row, dtype=torch.int32)

    def save(self, folder: Path) -> None:
        """Write what a model needs to be served, here and by transformers' AutoTokenizer."""
        (folder / TOKENIZER_FILE).write_bytes(self._content)
        (folder / TOKENIZER_CONFIG_FILE).write_text(json.dumps(_TRANSFORMERS))


Tokenizer = Bytes | Bpe


def read_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer in a folder. Raise ValueError if it is no byte-level BPE."""
    file = folder / TOKENIZER_FILE
    return Bpe(file) if file.is_file() else Bytes()


def _cut(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield what matches and what is between."""
    end = 0
    for match in pattern.finditer(text):
        yield from filter(None, (text[end : match.start()], match[0]))
        end = match.end()
    if text[end:]:
        yield text[end:]


def _cuts(values: dict[str, Any], file: Path) -> Iterator[str]:
    """Yield the patterns by which a tokenizer cuts text, one after the other."""
    first = values["pre_tokenizer"] or {"type": None}
    steps = first["pretokenizers"] if first["type"] == "Sequence" else [first]
    for step in steps:
        match step:
            case {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}:
                yield pattern
            case {"type": "Digits", "individual_digits": True}:
                yield r"\p{N}"
            case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": bool(cuts)}:
                yield from [GPT2] if cuts else []
            case _:
                raise ValueError(f"{file} cuts text by {step['type']}, which is not read here")
    if steps[-1]["type"] != "ByteLevel":
        raise ValueError(f"{file} is no byte-level BPE, as `prepare.py --tokenizer bpe` writes")


def _translated(pattern: str) -> str:
    r"""Return a pattern for `re`, which has no \p, and whose \s has four characters more."""
    inside = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal inside
        text = match[0]
        inside += {"[": 1, "]": -1}.get(text, 0)
        if text == r"\S":
            return f"[^{_ranges('s')}]"
        if text == r"\s" or text.startswith(r"\p"):
            ranges = _ranges(text.strip("\\p{}"))
            return ranges if inside else f"[{ranges}]"
        return text

    return _CLASSES.sub(replace, pattern)


@cache
def _ranges(name: str) -> str:
    """Return the characters of a class (L, N or s) as `re` writes them in brackets."""

    def belongs(code: int) -> bool:
        if name == "s":
            return chr(code).isspace() and not 0x1C <= code <= 0x1F
        return unicodedata.category(chr(code)).startswith(name)

    ranges = []
    for holds, group in groupby(range(sys.maxunicode + 1), belongs):
        codes = list(group)
        if holds:
            ranges.append(f"\\U{codes[0]:08x}-\\U{codes[-1]:08x}")
    return "".join(ranges)


def _characters() -> list[str]:
    """Return the character that stands for each byte in the file, as in GPT-2's."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in shown else next(others)) for byte in range(256)]
