"""Sphinx's settings for `make docs`: the Markdown of the checkout as a site.

The pages stay as they are on GitHub. Their order, and the menu, are those of docs/README.md, whose
tables become the tables of contents. Two pages get what programs say of themselves: the commands
(by sphinx-click) and shoal-local's operations.
"""

import re
import site
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

ROOT = Path(__file__).resolve().parents[2]
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
sys.path.insert(0, str(ROOT))
# appended: where both environments have a package, Sphinx gets its own
site.addsitedir(str(ROOT / ".venv" / "lib" / _VERSION / "site-packages"))

from dev.tools.coverage import tables  # noqa: E402  # found by the lines above
from shoal.cli.answers import verbs  # noqa: E402
from shoal.cli.main import shoal  # noqa: E402

project = "Shoal"
author = "Shoal"
extensions = ["myst_parser", "sphinx_click"]
root_doc = "docs/README"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/**/*.md",
    "examples/README.md",
    "images/README.md",
    "packages/*/*.md",
    "packages/shoal-local/docs/*.md",
    "packages/stand-ins/*/README.md",
    "packages/shoal/tests/red_team/README.md",
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
COMMANDS, OPERATIONS = "docs/reference/cli", "packages/shoal-local/docs/coverage"
"""Pages that are built each time, because programs may say something else today."""
_SECTION = re.compile(r"^## (.+)$|^\|.*?\[[^\]]+\]\(([^)#]+\.md)\)", re.MULTILINE)


def setup(app: Any) -> None:
    """Give the first page its menu, and let draw.js have Mermaid's blocks as they are."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", _complete)
    app.connect("build-finished", _write_llms)
    app.connect("env-get-outdated", lambda *_: [COMMANDS, OPERATIONS])
    list(verbs(shoal))  # sphinx-click reads a group's commands as they are, so load them


def _complete(_app: Any, page: str, source: list[str]) -> None:
    """Add to a page what is computed: the menu, or the tables of operations."""
    if page == OPERATIONS:
        source[0] += tables()
    if page in (root_doc, "docs/strategies/README"):
        source[0] += "".join(_contents(source[0]))


def _write_llms(app: Any, error: Exception | None) -> None:
    """Write llms.txt (llmstxt.org): a line for each page, with its title and first sentence."""
    if error or app.builder.format != "html":
        return
    lines = [f"# {project}", ""]
    for page in sorted(app.env.found_docs):
        tree = app.env.get_doctree(page)
        texts = (each.astext() for each in tree.findall(lambda node: node.tagname == "paragraph"))
        sentences = re.split(r"(?<=\.)\s", " ".join(next(texts, "").split()))
        sentence = next((each for each in sentences if " " in each), "")  # "Context." says nothing
        title, place = app.env.titles[page].astext(), app.builder.get_target_uri(page)
        lines.append(f"- [{title}]({place}): {sentence}")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


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
