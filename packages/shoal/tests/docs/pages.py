"""The pages that people read, what is in them, and a checkout to type their commands into."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.forked import command
from tests.repository import CHECKOUT, link_checkout

ROOT = Path(__file__).resolve().parents[4]
NEEDS_AWS = "# needs AWS"
"""A block that begins so is not run; its commands are only parsed."""
NEEDS_A_RUN = "# needs a run"
"""A block that begins so works while something goes on;
packages/shoal/tests/end_to_end/test_verbs.py types some of them.
"""
TAKES_A_MINUTE = "# takes a minute"
"""A block that begins so is run nightly."""
_FENCE = re.compile(r"^([ \t]*)```(\w*)\n(.*?)^[ \t]*```$", re.DOTALL | re.MULTILINE)
_HEREDOC = re.compile(r"<<'(\w+)'\n.*?^\1$", re.DOTALL | re.MULTILINE)


@cache
def pages() -> list[str]:
    """Return the paths of all pages in the checkout."""
    command = ["git", "ls-files", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for path in listed.splitlines() if (ROOT / path).exists()]


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in the blocks of a page: all lines of a block of `sh`, those
    with a prompt of a block of `console`, without here-documents.
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


def scripts(text: str) -> list[str]:
    """Return the blocks of `sh`, as a reader would paste them."""
    return [block for _, language, block in _FENCE.findall(text) if language == "sh"]


def marked(text: str, *marks: str) -> str:
    """Return the blocks of `sh` that begin with one of these comments, as a page of their own."""
    return page_of(block for block in scripts(text) if block.lstrip().startswith(marks))


def unmarked(text: str) -> str:
    """Return the blocks of `sh` that begin with no mark, as a page of their own."""
    marks = (NEEDS_A_RUN, NEEDS_AWS, TAKES_A_MINUTE)
    return page_of(block for block in scripts(text) if not block.lstrip().startswith(marks))


def page_of(blocks: Iterable[str]) -> str:
    return "".join(f"```sh\n{block}\n```\n" for block in blocks)


def code_spans(text: str) -> list[str]:
    """Return what stands between backticks in the lines of a page, not in its blocks."""
    return re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))


def writable_checkout(folder: Path) -> Path:
    """Make the empty `folder` a checkout to write into, whose `.venv` has the commands that pages
    type; return it.
    """
    link_checkout(folder)
    (folder / ".venv").unlink()
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("aws", "hadolint"):
        (folder / ".venv" / "bin" / name).symlink_to(Path(sys.executable).parent / name)
    shoal = command("--root", str(folder))
    for name, words in (("python", [sys.executable]), ("shoal", shoal)):
        program = folder / ".venv" / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
    return folder


def typed(checkout: Path, text: str, timeout_s: float = 120) -> str:
    """Run the blocks of a text in one shell, up to the first command that fails."""
    result = subprocess.run(
        ["bash", "-e"],
        input="".join(scripts(text)),
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout
