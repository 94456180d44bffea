"""The pages that people read, and what is in them: commands, code in a line, links, headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "lab"
"""Entries are never changed, so they name commands and paths of their day."""
NEEDS_AWS = "# needs AWS"
"""A block that begins so is not run; its commands are only parsed."""
NEEDS_A_RUN = "# needs a run"
"""A block that begins so works while something goes on; a test that has a run types its commands
(tests/end_to_end/test_verbs.py), or they are only parsed.
"""
TAKES_A_MINUTE = "# takes a minute"
"""A block that begins so is run nightly."""
_FENCE = re.compile(r"^([ \t]*)```(\w*)\n(.*?)^[ \t]*```$", re.DOTALL | re.MULTILINE)
_HEREDOC = re.compile(r"<<'(\w+)'\n.*?^\1$", re.DOTALL | re.MULTILINE)
_ANYTHING = re.escape("...")
_CHANGES = r"(\b\d{12}\b)|\b[0-9a-f-]{7,}\b|\b(?=\w*[0-9A-Z])\w{12}\b|\d+"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def pages() -> list[str]:
    """Return the paths of all pages but notebooks and coverage.md, relative to the checkout."""
    places = ("examples", "images", "local", "tests/red_team")
    readmes = (ROOT / place / "README.md" for place in places)
    folders = (*ROOT.glob("docs/**/*.md"), *readmes)
    found = (*ROOT.glob("*.md"), *(page for page in folders if NOTEBOOK not in page.parents))
    return sorted(page.relative_to(ROOT).as_posix() for page in found)


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in the blocks of a page: all lines of a block of `sh`, those
    with a prompt of a block of `console`. What a command reads from the lines below it is no
    command.
    """
    for _, language, block in _FENCE.findall(text):
        for line in _HEREDOC.sub("", block).replace("\\\n", " ").splitlines():
            if language == "sh":
                yield from _words(line)
            elif language == "console" and line.startswith("$ "):
                yield from _words(line[2:])


def _words(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, up to what the shell takes for itself."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if re.fullmatch(r"[();<>|&]+", word):
            if words:
                yield words
            words = []
        else:
            words.append(word)
    if words:
        yield words


def blocks(text: str) -> list[str]:
    """Return the blocks that have commands: those of `sh`, and those of `console` with a prompt."""
    return [
        block
        for _, language, block in _FENCE.findall(text)
        if language == "sh" or (language == "console" and re.search(r"^\$ ", block, re.MULTILINE))
    ]


def scripts(text: str) -> list[str]:
    """Return the blocks of `sh`, as a reader would paste them."""
    return [block for _, language, block in _FENCE.findall(text) if language == "sh"]


def marked(text: str, *marks: str) -> str:
    """Return the blocks of `sh` that begin with one of these comments, as a page of their own."""
    return _page(block for block in scripts(text) if block.lstrip().startswith(marks))


def unmarked(text: str, *marks: str) -> str:
    """Return the other blocks of `sh`, as a page of their own."""
    return _page(block for block in scripts(text) if not block.lstrip().startswith(marks))


def _page(blocks: Iterable[str]) -> str:
    return "".join(f"```sh\n{block}```\n" for block in blocks)


def sessions(text: str) -> list[list[tuple[str, list[str]]]]:
    """Return the blocks of `console`: each command after a prompt, and the lines shown below it."""
    blocks = (block for _, language, block in _FENCE.findall(text) if language == "console")
    return [session for session in map(typed_commands, blocks) if session]


def typed_commands(text: str) -> list[tuple[str, list[str]]]:
    """Return each command of a block or a transcript, and the lines below it."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    printed = (each.splitlines() for each in parts[1::2])
    return list(zip(parts[::2], printed, strict=True))


def first_mismatch(page: Iterable[tuple[str, list[str]]], transcript: str) -> list[str]:
    """Return the first command of a page, with its lines, that a transcript does not have after
    those before it; nothing if it has them all.

    Lines are compared as `missing` does it.
    """
    left = iter(typed_commands(transcript))
    for command, shown in page:
        words = _masked(" ".join(shlex.split(command)))
        if not any(
            _masked(one) == words and not missing(shown, "\n".join(printed))
            for one, printed in left
        ):
            return [command, *shown]
    return []


def missing(shown: Iterable[str], printed: str) -> list[str]:
    """Return the lines that a page shows and a program did not print.

    `...` stands for anything. Numbers and hashes may be others, but for account ids, and so may
    names that are made up: 12 characters with a digit or a capital letter.
    """
    lines = "\n".join(map(_masked, printed.splitlines()))
    return [
        line
        for line in shown
        if not re.search(f"^{re.escape(_masked(line)).replace(_ANYTHING, '.*')}$", lines, re.M)
    ]


def _masked(line: str) -> str:
    return re.sub(_CHANGES, lambda found: found[1] or "0", line.rstrip())


def shown(text: str) -> list[str]:
    """Return the lines of the blocks of `text`, which a page shows as output."""
    blocks = [block for _, language, block in _FENCE.findall(text) if language == "text"]
    return [line for block in blocks for line in block.splitlines()]


def code_spans(text: str) -> list[str]:
    """Return what stands between backticks in the lines of a page, not in its blocks."""
    return re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))


def links(text: str) -> list[str]:
    """Return the targets of links that stay in the checkout."""
    return [link for link in _LINK.findall(_FENCE.sub("", text)) if "://" not in link]


def headings(text: str) -> list[str]:
    return _HEADING.findall(_FENCE.sub("", text))
