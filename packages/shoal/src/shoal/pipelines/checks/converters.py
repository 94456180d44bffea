"""What `type=` of an option makes of a text, without running the script.

Of Python's own converters the result is known. A function or a lambda of the script is called
alone (`confined`), with the little that it needs of Python and the constants beside it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from typing import Any

from shoal.pipelines.checks.confined import Confined, LimitError

Converter = Callable[[str], Any]


class UnreadError(Exception):
    """A converter needs more than is here."""


_KNOWN: Mapping[str, Converter] = {
    **{each.__name__: each for each in (bool, complex, float, int, str)},
    **dict.fromkeys(("Path", "pathlib.Path"), str),
    **dict.fromkeys(("ast.literal_eval", "literal_eval"), ast.literal_eval),
    "json.loads": json.loads,
}


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
    confined = Confined(functions.values(), constants)
    converter = confined.value_of(expression)
    if converter is None:
        return None

    def convert(text: str) -> Any:
        try:
            return confined.call(converter, text)
        except (AttributeError, NameError, RecursionError, MemoryError, LimitError) as error:
            raise UnreadError from error

    convert.__name__ = converter.__name__
    return convert
