"""The data: lines of JSON with `messages`, of which the assistant's are learned. It is yours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def conversations(folder: Path) -> list[list[dict[str, str]]]:
    """Return the messages of each line."""
    several = []
    for file in sorted(folder.rglob("*.jsonl")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            record = json.loads(line)
            if "messages" not in record:
                raise ValueError(f"{file}, line {number}: has no `messages`, but {sorted(record)}")
            several.append(record["messages"])
    if not several:
        raise ValueError(f"{folder} has no lines in *.jsonl")
    return several


def examples(folder: Path, tokenizer: Any, context: int) -> list[dict[str, list[int]]]:
    """Return each conversation as the chat template writes it, cut after `context` tokens. The
    label -100 is left out by PyTorch's cross entropy.
    """
    rows = []
    for messages in conversations(folder):
        written = tokenizer.apply_chat_template(
            messages, return_dict=True, return_assistant_tokens_mask=True
        )
        ids, learned = written["input_ids"][:context], written["assistant_masks"][:context]
        labels = [token if known else -100 for token, known in zip(ids, learned, strict=True)]
        rows.append({"input_ids": ids, "labels": labels})
    return rows


def prompt(request: dict[str, Any], tokenizer: Any) -> Any:
    """Return the tokens after which the assistant answers."""
    messages = request["messages"]
    written = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    return written["input_ids"]
