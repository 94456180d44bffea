"""What `type=` of an option makes of a text, without running the script.

Of Python's own converters the result is known. A function or a lambda of the script is worked out
alone, if it has only comparisons, conversions and methods of texts: what may loop, import or touch
anything else is not read.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

Converter = Callable[[str], Any]
_MAX_NODES = 300
_EXCEPTIONS = (ArithmeticError, KeyError, TypeError, ValueError, argparse.ArgumentTypeError)
_KNOWN: Mapping[str, Converter] = {
    "bool": bool,
    "complex": complex,
    "float": float,
    "int": int,
    "str": str,
    "Path": str,
    "pathlib.Path": str,
    "ast.literal_eval": ast.literal_eval,
    "literal_eval": ast.literal_eval,
    "json.loads": json.loads,
}
_NAMES: Mapping[str, Any] = {
    **{each.__name__: each for each in (all, any, bool, dict, float, int, isinstance, len, list)},
    **{each.__name__: each for each in (max, min, set, str, tuple, *_EXCEPTIONS)},
    "argparse": argparse,
    "math": math,
}
_ATTRIBUTES = {"ArgumentTypeError", "inf", "isfinite", "isnan", *dir(str)}
_NODES = (
    *(ast.Module, ast.FunctionDef, ast.Lambda, ast.arguments, ast.arg, ast.Return, ast.If),
    *(ast.IfExp, ast.Raise, ast.Assign, ast.AnnAssign, ast.Expr, ast.Try, ast.ExceptHandler),
    *(ast.Name, ast.Constant, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp),
    *(ast.unaryop, ast.Call, ast.keyword, ast.Attribute, ast.Tuple, ast.List, ast.Set, ast.Dict),
    *(ast.Subscript, ast.JoinedStr, ast.FormattedValue, ast.expr_context, ast.Pass),
)


def converter_of(
    node: ast.expr | None,
    functions: Mapping[str, ast.FunctionDef],
    constants: Mapping[str, Any],
) -> Converter | None:
    """Return what `type=NODE` calls; None if that cannot be read.

    `functions` and `constants` are the script's.
    """
    if node is None:
        return str
    name = ast.unparse(node)
    if name.rpartition(".")[2] == "strtobool":
        return _strtobool
    if name in functions or isinstance(node, ast.Lambda):
        return _worked_out(functions.get(name, node), functions, constants)
    return _KNOWN.get(name)


def _worked_out(
    node: ast.AST, functions: Mapping[str, ast.FunctionDef], constants: Mapping[str, Any]
) -> Converter | None:
    """Return the function, with what it uses of the script; None if it does more."""
    used, left = dict[str, ast.FunctionDef](), [node]
    names: dict[str, Any] = {"__builtins__": {}, **_NAMES}
    while left:
        plain = _bare(left.pop())
        if not _is_plain(plain):
            return None
        for name in _free_names(plain) - names.keys() - used.keys():
            if name in functions:
                used[name] = _bare(functions[name])
                left.append(functions[name])
            elif name in constants:
                names[name] = constants[name]
            else:
                return None
    expression = "_worked_out"
    if isinstance(node, ast.FunctionDef):
        used[node.name], expression = _bare(node), node.name
    else:
        names[expression] = eval(ast.unparse(node), names)  # noqa: S307 - see _is_plain
    if _calls_itself(used):
        return None
    for function in used.values():
        exec(ast.unparse(function), names)  # noqa: S102 - see _is_plain
    return names[expression]  # type: ignore[no-any-return]


def _bare(node: Any) -> Any:
    """Return a copy without annotations, whose names are not known."""
    copy = deepcopy(node)
    for each in ast.walk(copy):
        if isinstance(each, ast.FunctionDef):
            each.returns = None
        elif isinstance(each, ast.arg):
            each.annotation = None
    return copy


def _free_names(node: ast.AST) -> set[str]:
    nodes = list(ast.walk(node))
    names = [each for each in nodes if isinstance(each, ast.Name)]
    bound = {each.arg for each in nodes if isinstance(each, ast.arg)}
    bound |= {str(each.name) for each in nodes if isinstance(each, ast.ExceptHandler)}
    bound |= {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return {each.id for each in names} - bound


def _is_plain(node: ast.AST) -> bool:
    """Return whether it ends soon and touches nothing: no loops, no arithmetic, no imports."""
    nodes = list(ast.walk(node))
    return len(nodes) <= _MAX_NODES and all(
        isinstance(each, _NODES)
        and not (isinstance(each, ast.FunctionDef) and each.decorator_list)
        and not (isinstance(each, ast.Attribute) and not _may_use(each.attr))
        and not (isinstance(each, ast.FormattedValue) and each.format_spec)
        for each in nodes
    )


def _may_use(attribute: str) -> bool:
    return attribute in _ATTRIBUTES and not attribute.startswith(("_", "format"))


def _calls_itself(functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Return whether a function leads back to itself."""
    calls = {name: _free_names(node) & functions.keys() for name, node in functions.items()}
    for _ in functions:
        calls = {name: used.union(*(calls[each] for each in used)) for name, used in calls.items()}
    return any(name in used for name, used in calls.items())


def _strtobool(text: str) -> bool:
    words = {"y": True, "yes": True, "t": True, "true": True, "on": True, "1": True}
    words |= {"n": False, "no": False, "f": False, "false": False, "off": False, "0": False}
    if text.lower() not in words:
        raise ValueError(f"invalid truth value {text!r}")
    return words[text.lower()]
