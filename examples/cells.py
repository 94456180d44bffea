"""Splits a script into cells, which start with `# %%`.

Editors run such a script cell by cell, as they do a notebook.
"""

from __future__ import annotations

import re

_CELL = re.compile(r"^# %%(?P<kind> \[markdown\])?\n", re.MULTILINE)


def cells_of(script: str) -> list[tuple[str, str]]:
    """Return (kind, source) of every cell, kind `markdown` or `code`."""
    _, *parts = _CELL.split(script)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [
        ("markdown", _without_hashes(text)) if kind else ("code", text.strip())
        for kind, text in pairs
    ]


def _without_hashes(text: str) -> str:
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.strip().splitlines())
