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
    """What each call hands to `shoal`: variables have a value, `${NAME:+words}` is there, and what
    the shell keeps is not.
    """
    for line in script.replace("\\\n", " ").splitlines():
        for call in CALL.finditer(line):
            text = _VARIABLE.sub(_PLACEHOLDER, _OPTIONAL.sub(r"\1", line[call.end() :]))
            yield list(_words(text))


def _words(text: str) -> Iterator[str]:
    """Up to the first sign that ends a command or redirects what it prints."""
    lexer = shlex.shlex(re.sub(r"\s\d+(?=>)", " ", text), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if re.fullmatch(r"[();<>|&]+", word):
            return
        yield word


def refusal(words: list[str]) -> str | None:
    """Why click would not start the verb with these words; options of `shoal` itself, before the
    verb, are not known here.
    """
    try:
        verb, rest = _verb(shoal, words)
        verb.make_context("shoal", rest)
    except click.UsageError as error:
        return error.format_message()
    return None


def _verb(command: click.Command, words: list[str]) -> tuple[click.Command, list[str]]:
    """Raises UsageError for words that name none."""
    if not isinstance(command, click.Group):
        return command, words
    if not words:
        raise click.UsageError("No verb.")
    _, found, rest = command.resolve_command(click.Context(command), words)
    assert found is not None
    return _verb(found, rest)
