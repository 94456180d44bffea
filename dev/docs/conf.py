"""Sphinx's settings for `make docs`: the Markdown of the checkout as a site.

The pages stay as they are on GitHub. Their order, and the menu, are those of docs/README.md, whose
tables become the tables of contents.
"""

from __future__ import annotations

import re
from typing import Any

from pygments.lexers.special import TextLexer

project = "Shoal"
author = "Shoal"
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/**/*.md",
    "examples/README.md",
    "images/README.md",
    "local/*.md",
    "local/docs/*.md",
    "tests/red_team/README.md",
]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Shoal"
html_copy_source = False
html_show_copyright = False
# furo, Sphinx and Mermaid ask no other host for fonts or scripts; a page opens from disk
html_static_path = ["node_modules/@mermaid-js/tiny/dist", "static"]
html_js_files = ["mermaid.tiny.js", "draw.js"]
suppress_warnings = ["toc.not_included"]  # shoal-local's changes
_SECTION = re.compile(r"^## (.+)$|^\|.*?\[[^\]]+\]\(([^)#]+\.md)\)", re.MULTILINE)


def setup(app: Any) -> None:
    """Give the first page its menu, and let draw.js have Mermaid's blocks as they are."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", _add_contents)


def _add_contents(_app: Any, page: str, source: list[str]) -> None:
    if page in (root_doc, "docs/strategies/README"):
        source[0] += "".join(_contents(source[0]))


def _contents(text: str) -> list[str]:
    """Return a table of contents for each section, of the pages that its table links."""
    sections: dict[str, list[str]] = {}
    seen: set[str] = set()
    title = ""
    for heading, page in _SECTION.findall(text):
        title = heading or title
        if page and page not in seen:
            seen.add(page)
            sections.setdefault(title, []).append(page)
    return [
        "\n".join(("\n\n```{toctree}", ":hidden:", *caption, "", *pages, "```\n"))
        for name, pages in sections.items()
        for caption in [[f":caption: {name}"] if name else []]
    ]
