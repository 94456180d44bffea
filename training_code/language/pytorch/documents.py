"""The documents in a folder of UTF-8 text, without torch: `prepare.py` reads them as the jobs do.

Each `*.txt` is a document, and so is the `text` of each line of a `*.jsonl`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

_SURROGATE = re.compile("[\ud800-\udfff]")


def documents(folder: Path) -> Iterator[str]:
    """Yield each document that is not empty, in the order of their files' names.

    Raise ValueError with file and line for what is no text to learn from.
    """
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".txt", ".jsonl") and file.is_file():
            for place, text in _texts(file):
                if "\0" in text:
                    raise ValueError(f"{place} has a zero byte, which ends a text here: remove it")
                if _SURROGATE.search(text):
                    raise ValueError(f"{place} has a lone surrogate, which is no text: remove it")
                if text:
                    yield text


def _texts(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the place of each text, and the text."""
    try:
        content = file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 at byte {error.start}: convert it") from error
    if file.suffix == ".txt":
        yield str(file), content
        return
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            place = f"{file} line {number}"
            yield place, _field(place, line)


def _field(place: str, line: str) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is not JSON: {error}") from error
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    raise ValueError(f'{place} has no string "text"')
