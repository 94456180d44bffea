"""What `type=` of an option makes of a text, without running the script.

Of Python's own converters the result is known. A function or a lambda of the script is called
alone, with what it needs of Python and the constants beside it, if it has no loop and no import.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

Converter = Callable[[str], Any]


class UnreadError(Exception):
    """A converter needs more than is here."""


_KNOWN: Mapping[str, Converter] = {
    **{each.__name__: each for each in (bool, complex, float, int, str)},
    **dict.fromkeys(("Path", "pathlib.Path"), str),
    **dict.fromkeys(("ast.literal_eval", "literal_eval"), ast.literal_eval),
    "json.loads": json.loads,
}
_BUILTINS = "all any bool dict float int isinstance len list max min set str tuple".split()  # noqa: SIM905 - read as words
_EXCEPTIONS = ("Exception", "KeyError", "TypeError", "ValueError")
_NAMES = {name: getattr(builtins, name) for name in (*_BUILTINS, *_EXCEPTIONS)}
_MORE = (ast.Import, ast.ImportFrom, ast.While, ast.For, ast.With, ast.ClassDef, ast.Yield)


def converter_of(
    node: ast.expr | None, functions: Mapping[str, ast.FunctionDef], constants: Mapping[str, Any]
) -> Converter | None:
    """Return what `type=NODE` calls; None if that cannot be read.

    `functions` and `constants` are the script's.
    """
    name = ast.unparse(node) if node else "str"
    if name in functions or isinstance(node, ast.Lambda):
        return _alone(name, functions, constants)
    return _KNOWN.get(name)


def _alone(
    expression: str, functions: Mapping[str, ast.FunctionDef], constants: Mapping[str, Any]
) -> Converter | None:
    names = {"__builtins__": _NAMES, "argparse": argparse, "math": math, **constants}
    for function in functions.values():
        if _is_plain(function):
            with suppress(NameError, AttributeError):  # of a default
                exec(ast.unparse(function), names)  # noqa: S102 - see _is_plain
    if not _is_plain(ast.parse(expression)) or expression.isidentifier() > (expression in names):
        return None
    converter = eval(expression, names)  # noqa: S307 - see _is_plain

    def convert(text: str) -> Any:
        try:
            return converter(text)
        except (AttributeError, NameError, RecursionError) as error:
            raise UnreadError from error

    convert.__name__ = converter.__name__
    return convert


def _is_plain(node: ast.AST) -> bool:
    """Return whether it ends soon and touches nothing else."""
    return not any(
        isinstance(each, _MORE)
        or getattr(each, "decorator_list", None)
        or (isinstance(each, ast.Attribute) and each.attr.startswith(("_", "format")))
        for each in ast.walk(node)
    )
