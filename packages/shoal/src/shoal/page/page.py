"""One HTML file that shows a run, opened from disk without a network.

Its policy lets nothing run but its own script, by digest, and nothing load. Text from outside is in
a block of JSON, in which no `<` stands.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import ToolMissingError
from shoal.page.record import json_text

_FILES = Path(__file__).with_name("page_files")
_CURVES = Path("node_modules/uplot/dist")
_LANGUAGE = """try { new Intl.NumberFormat(navigator.language) } catch {
  Object.defineProperty(navigator, "language", { value: "en-US" });
}"""
"""Chromium without a locale says en-US@posix, with which uPlot would not load."""


def page(record: Mapping[str, Any], root: Path) -> str:
    """Return the page of a run; the checkout `root` has the library that draws its curves.

    Raises ToolMissingError if that is not installed.
    """
    try:
        script = (root / _CURVES / "uPlot.iife.min.js").read_text(encoding="utf-8")
        style = (root / _CURVES / "uPlot.min.css").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ToolMissingError(f"{error.filename} is missing: run `make install`") from error
    script = f"{_LANGUAGE}\n{script}\n" + (_FILES / "page.js").read_text(encoding="utf-8")
    style += (_FILES / "page.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}"
    data = json_text(record, separators=(",", ":")).replace("<", "\\u003c")
    body = f'<script type="application/json" id="run">{data}</script>\n<script>{script}</script>'
    return _document("run", style, policy, f"<main></main>\n{body}")


def _document(title: str, style: str, policy: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
