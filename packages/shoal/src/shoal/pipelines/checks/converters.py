"""What `type=` of a script's option names, as far as it is called here.

Python's own converters and those that Shoal's scripts and templates define are called; a function
of somebody else's is not: `shoal check` may read a branch of theirs.
"""

import argparse
import ast
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

Converter = Callable[[str], Any]
_PYTHONS: Mapping[str, Converter] = {
    **{each.__name__: each for each in (bool, complex, float, int, str)},
    **dict.fromkeys(("Path", "pathlib.Path"), str),
    **dict.fromkeys(("ast.literal_eval", "literal_eval"), ast.literal_eval),
    "json.loads": json.loads,
}
_SWITCHES = {"true": True, "1": True, "false": False, "0": False}
_OURS: Mapping[str, tuple[Callable[[str], Any], Callable[[Any], bool], str]] = {
    "positive": (int, lambda number: number >= 1, "is not a positive number"),
    "positive_number": (float, lambda number: 0 < number < math.inf, "is not a positive number"),
    "share": (float, lambda number: 0 <= number <= 1, "is not between 0 and 1"),
    "switch": (
        lambda text: _SWITCHES.get(text.lower()),
        lambda value: value is not None,
        "is neither true nor false",
    ),
}
"""By name: what converts, what must hold, and what the script says where it does not."""


def converter_of(
    node: ast.expr | None, functions: Mapping[str, ast.FunctionDef]
) -> Converter | None:
    """Return what `type=NODE` calls, with the script's `functions`; None if that is not known."""
    name = ast.unparse(node) if node else "str"
    if name not in functions:
        return _PYTHONS.get(name)
    ours = name.lstrip("_")
    if ours not in _OURS or _OURS[ours][2] not in ast.unparse(functions[name]):
        return None
    convert, holds, otherwise = _OURS[ours]

    def converted(text: str) -> Any:
        value = convert(text)
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{text} {otherwise}")
        return value

    converted.__name__ = name
    return converted


def knows_true(node: ast.expr | None, functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Return whether a converter of the script's own has a word for true, as SageMaker sends it."""
    if node is None:
        return False
    nodes = ast.walk(functions.get(ast.unparse(node), node))
    texts = [each.value for each in nodes if isinstance(each, ast.Constant)]
    return any(isinstance(text, str) and text.lower() == "true" for text in texts)
