"""Functions of a script, called alone: they touch nothing, and end soon.

Only what is named here is run; of anything else nothing is. Names that lead elsewhere are not the
danger alone: a generator, an exception and a match statement lead to all of Python too.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Literal, NoReturn

MAX_STEPS, MAX_SIZE = 1_000, 4_000
"""Of one call: calls, operations and items of comprehensions; characters, bits and items of what
they make. A hyperparameter has at most 2,500 characters.
"""
_SYNTAX = (
    "Module Expression FunctionDef Lambda arguments arg keyword Return Assign AnnAssign If Raise"
    " Try ExceptHandler Assert Expr Pass BoolOp BinOp UnaryOp IfExp Compare Call JoinedStr Constant"
    " FormattedValue Attribute Subscript Slice Starred Name List Tuple Set Dict ListComp SetComp"
    " DictComp GeneratorExp comprehension Load Store"
)
_NODES = frozenset(_SYNTAX.split())
_KINDS = (ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
_BUILTINS = "all any bool dict float int isinstance len list max min set str tuple".split()  # noqa: SIM905 - read as words
_EXCEPTIONS = ("Exception", "KeyError", "TypeError", "ValueError")
_NAMES = {name: getattr(builtins, name) for name in (*_BUILTINS, *_EXCEPTIONS)}
_MATH = "ceil e exp fabs floor inf isclose isfinite isinf isnan log log10 log2 nan pi sqrt".split()  # noqa: SIM905
_MODULES = {
    "argparse": SimpleNamespace(ArgumentTypeError=argparse.ArgumentTypeError),
    "math": SimpleNamespace(**{name: getattr(math, name) for name in _MATH}),
}
_METHODS = (
    "capitalize casefold count endswith find get index is_integer isalnum isalpha isdecimal isdigit"
    " islower isnumeric isupper items join keys lower lstrip partition removeprefix removesuffix"
    " replace rpartition rsplit rstrip split splitlines startswith strip title upper values"
)
_ATTRIBUTES = {*_METHODS.split(), *_MATH, "ArgumentTypeError"}
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
}
_WIDE = re.compile(r"%[^a-zA-Z%]*(\d\d\d|\*)")
_CALL, _OPERATE, _MADE = "<call>", "<operate>", "<made>"
"""Names that no script can write."""


class LimitError(BaseException):
    """It does not end soon, makes something large, or does what is not judged."""


class Confined:
    """The plain ones of a script's functions, beside its constants."""

    def __init__(
        self, functions: Iterable[ast.FunctionDef], constants: Mapping[str, object]
    ) -> None:
        self._steps = 0
        own = {_CALL: self._call, _OPERATE: self._operate, _MADE: self._made}
        self._names = {**_MODULES, **constants, "__builtins__": _NAMES, **own}
        for function in functions:
            self._run(ast.unparse(function), "exec")

    def value_of(self, expression: str) -> Any:
        """Return the value of a name or a lambda; None if that is not plain, or not there."""
        return self._run(expression, "eval")

    def call(self, function: Callable[[str], object], text: str) -> object:
        """Return what the function makes of a text. Raises what it raises, and LimitError."""
        self._steps = 0
        try:
            return function(text)
        finally:  # the script may have caught it
            if self._steps > MAX_STEPS:
                raise LimitError

    def _run(self, source: str, mode: Literal["exec", "eval"]) -> Any:
        with suppress(Exception, LimitError):  # a default may raise anything
            tree = ast.parse(source, mode=mode)
            if all(_is_plain(each) for each in ast.walk(tree)):
                tree = ast.fix_missing_locations(_Counted().visit(tree))
                return eval(compile(tree, "<script>", mode), self._names)  # noqa: S307 - see _NODES
        return None

    def _call(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        self._step()
        return self._made(function(*args, **keywords))

    def _operate(self, name: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if (
            (name == "Mult" and not numbers)
            or (name == "Pow" and not (numbers and abs(left) < 1e6 and abs(right) < 1e2))
            or (name == "Mod" and not numbers and _WIDE.search(str(left)))
            or name not in _OPERATORS
        ):
            self._stop()
        return self._made(_OPERATORS[name](left, right))

    def _made(self, value: Any) -> Any:
        self._step()
        if _left(value, MAX_SIZE) < 0:
            self._stop()
        return value

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise LimitError

    def _stop(self) -> NoReturn:
        """Let this step be the last one."""
        self._steps = MAX_STEPS + 1
        raise LimitError


def _is_plain(node: ast.AST) -> bool:
    return (
        (type(node).__name__ in _NODES or isinstance(node, _KINDS))
        and not getattr(node, "decorator_list", None)
        and not getattr(node, "format_spec", None)
        and getattr(node, "is_async", 0) == 0
        and (not isinstance(node, ast.Attribute) or node.attr in _ATTRIBUTES)
        and (not isinstance(node, ast.Attribute | ast.Subscript) or isinstance(node.ctx, ast.Load))
    )


def _left(value: object, size: int) -> int:
    """Return what a value leaves of a size, below zero if that is too little: its text can be as
    large as all that is in it, each time that it is.
    """
    if isinstance(value, int):
        return size - value.bit_length()
    if isinstance(value, str | bytes):
        return size - len(value)
    if isinstance(value, BaseException):
        value = value.args
    if isinstance(value, Mapping):
        value = value.items()
    for each in value if isinstance(value, Collection) else ():
        size = _left(each, size - 1)
        if size < 0:
            break
    return size


class _Counted(ast.NodeTransformer):
    """Lets calls, operations, comprehensions and what is put together go through Confined."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.Call):
            return _call(_CALL, node.func, *node.args, keywords=node.keywords)
        if isinstance(node, ast.BinOp):
            name = ast.Constant(type(node.op).__name__)
            return _call(_OPERATE, name, node.left, node.right)
        if isinstance(node, ast.comprehension):
            node.iter, node.ifs = _made(node.iter), [_made(each) for each in node.ifs]
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            node.elt = _made(node.elt)
        elif isinstance(node, ast.DictComp):
            node.key, node.value = _made(node.key), _made(node.value)
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        is_display = isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load)
        is_made = is_display or isinstance(node, ast.Set | ast.Dict | ast.JoinedStr)
        return _made(node) if is_made and isinstance(node, ast.expr) else node


def _made(node: ast.expr) -> ast.Call:
    return _call(_MADE, node)


def _call(name: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), keywords or [])
