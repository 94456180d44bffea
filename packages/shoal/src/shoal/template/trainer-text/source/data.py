"""The data: lines of JSON with a text. This file is yours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def examples(folder: Path, tokenizer: Any, context: int) -> list[dict[str, list[int]]]:
    """Return all texts one after the other, in pieces of `context` tokens, each of which counts."""
    ids: list[int] = []
    for file in sorted(folder.rglob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            ids += [*tokenizer(json.loads(line)["text"])["input_ids"], tokenizer.eos_token_id]
    if len(ids) < context:
        raise ValueError(f"{folder} has {len(ids)} tokens in *.jsonl, and --context is {context}")
    pieces = (ids[start : start + context] for start in range(0, len(ids) - context + 1, context))
    return [{"input_ids": piece, "labels": piece} for piece in pieces]


def prompt(request: dict[str, Any], tokenizer: Any) -> Any:
    """Return the tokens that a request wants continued."""
    return tokenizer(request["inputs"])["input_ids"]
