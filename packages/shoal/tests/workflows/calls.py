"""Calls of `shoal` in the scripts of a workflow: the words of each, and why click would refuse
them. Nothing is run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from shoal.cli.main import shoal

CALL = re.compile(r"\bbin/shoal\b|-m shoal.cli\b")
_OPTIONAL = re.compile(r"\$\{\w+:\+([^}]*)\}")
_VARIABLE = re.compile(r"\$\w+|\$\{\w+\}")
_PLACEHOLDER = "dev"


def calls(script: str) -> Iterator[list[str]]:
    """Yield the words that each call hands to `shoal`.

    Variables have a value, `${NAME:+words}` counts, and what the shell keeps does not.
    """
    for line in script.replace("\\\n", " ").splitlines():
        for call in CALL.finditer(line):
            text = _VARIABLE.sub(_PLACEHOLDER, _OPTIONAL.sub(r"\1", line[call.end() :]))
            yield list(_words(text))


def _words(text: str) -> Iterator[str]:
    """Yield the words before the first sign that ends a command or redirects its output."""
    lexer = shlex.shlex(re.sub(r"\s\d+(?=>)", " ", text), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if re.fullmatch(r"[();<>|&]+", word):
            return
        yield word


def refusal(words: list[str]) -> str | None:
    """Return why click would not start the verb with these words, None if it would.

    Options of `shoal` itself, before the verb, are not supported.
    """
    try:
        verb, rest = _verb(shoal, words)
        verb.make_context("shoal", rest)
    except click.UsageError as error:
        return error.format_message()
    return None


def _verb(command: click.Command, words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the verb and the rest of the words. Raises UsageError if they name no verb."""
    if not isinstance(command, click.Group):
        return command, words
    if not words:
        raise click.UsageError("No verb.")
    _, verb, rest = command.resolve_command(click.Context(command), words)
    assert verb is not None
    return _verb(verb, rest)
