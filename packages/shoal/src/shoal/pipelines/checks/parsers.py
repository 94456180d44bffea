"""What a script's argparse takes, read from its syntax tree without running it.

What cannot be read is left open: names that are put together, parsers that other packages make. Of
what `type=` names, Python's own converters and those that Shoal's scripts and templates define are
called; a function of somebody else's is not: `shoal check` may read a branch of theirs.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from shoal.settings.parsing.shared_code import python_files

PARSER = "ArgumentParser"
_GROUPS = {"add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"}
_READ = ("action", "nargs", "choices", "const", "required")
_ACTIONS = frozenset(
    {"store", "append", "extend", "store_true", "store_false", "store_const", "count"}
    | {"append_const", "help", "version"}
)
_UNREAD = object()
_MAX_OWNERS = 4
_MAX_NUMBERS = 10_000
"""Of a range, and of values of one option: argparse names each that may be given."""


class Added(NamedTuple):
    """One call of add_argument."""

    names: tuple[str, ...]
    """As the script writes them: `-e`, `--epochs`; of a positional argument its only name."""
    arguments: Mapping[str, Any]
    """action, nargs, choices, const and required, as far as they are read."""
    unread: frozenset[str]
    """The others of these, and `type`."""
    converter: Converter | None
    group: int | None
    """Of a group of which one option may be given, its number."""
    is_sure: bool
    """Whether no condition stands before it."""
    knows_true: bool = False
    """Whether a converter of the script's own has a word for true."""


@dataclass(frozen=True)
class Parser:
    """All that the files of a script add to the parser of its command line."""

    options: tuple[Added, ...] = ()
    positionals: tuple[Added, ...] = ()
    knows_all: bool = False
    """Whether there are no further options."""
    takes_others: bool = False
    """Whether what no option takes is no mistake."""
    abbreviates: bool = True
    is_single: bool = False
    """Whether it is the only parser of these files."""
    needed_groups: frozenset[int] = frozenset()
    needs_command: bool = False


@cache
def tree_of(text: str) -> ast.Module:
    """Return the syntax tree of a script's text; raise SyntaxError or ValueError if it has none.

    The cache is by text, not by file: environments share scripts, each is read more than once, and
    parsing was a third of `shoal check`.
    """
    try:
        return ast.parse(text)
    except (RecursionError, MemoryError) as error:
        raise ValueError("an expression of it is nested too deeply") from error


def modules_of(folder: Path, entry_point: str) -> list[Path]:
    """Return the modules in the folder, and those that workloads share, that a script imports by
    name, or that these import. The script must be there, and readable.
    """
    files, scripts = python_files(folder), [folder / entry_point]
    for script in scripts:  # it grows
        try:
            names = _imported(script.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            if script is scripts[0]:
                raise
            continue  # who reads the module says so
        paths = (f"{name.replace('.', '/')}.py" for name in names)
        scripts += [files[each] for each in paths if each in files and files[each] not in scripts]
    return scripts[1:]


@cache
def _imported(text: str) -> tuple[str, ...]:
    """Return the modules that a script may import by name, each once."""
    nodes = list(ast.walk(tree_of(text)))
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names += [str(node.module), *(f"{node.module}.{each.name}" for each in node.names)]
    return tuple(dict.fromkeys(names))


@cache
def parser_of(texts: tuple[str, ...]) -> Parser:
    """Return the parser that a script and its modules, given by their texts, make together."""
    functions, constants = _defined(texts)
    files = [_File(text, functions, constants) for text in texts]
    added = [each for file in files for each in file.added()]
    calls = [call for file in files for call in file.calls]
    parsers = [each for each in calls if _last(each.func) == PARSER]
    keywords = [(each.arg, _literal(each.value, {})) for call in parsers for each in call.keywords]
    takes_others = any(_last(call.func).startswith("parse_known") for call in calls)
    is_whole = all(each.names for each in added) and not any(file.leads_away() for file in files)
    named = [each for each in added if each.names]
    return Parser(
        tuple(each for each in named if each.names[0].startswith("-")),
        tuple(each for each in named if not each.names[0].startswith("-")),
        knows_all=bool(parsers)
        and is_whole
        and not takes_others
        and "parents" not in dict(keywords),
        takes_others=takes_others,
        abbreviates=("allow_abbrev", False) not in keywords,
        is_single=len(parsers) == 1,
        needed_groups=frozenset(
            id(call)
            for call in calls
            if _last(call.func) == "add_mutually_exclusive_group" and _keyword(call, "required")
        ),
        needs_command=any(
            _last(call.func) == "add_subparsers" and _keyword(call, "required") for call in calls
        ),
    )


@dataclass
class _File:
    text: str
    functions: Mapping[str, ast.FunctionDef]
    constants: Mapping[str, Any]
    calls: list[ast.Call] = field(init=False)

    def __post_init__(self) -> None:
        nodes = list(ast.walk(tree_of(self.text)))
        self.calls = [node for node in nodes if isinstance(node, ast.Call)]
        self._made = {  # groups, subcommands and parsers by the names that they have here
            ast.unparse(target): node.value
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            for target in node.targets
            if _last(node.value.func) in {*_GROUPS, PARSER}
        }
        self._aliases = {
            target.id
            for node in nodes
            if isinstance(node, ast.Assign) and _last(node.value) == "add_argument"
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        loops = [node for node in nodes if isinstance(node, ast.For)]
        self._loops = {id(call): loop.iter for loop in loops for call in ast.walk(loop)}
        conditions = (
            node
            for node in nodes
            if isinstance(node, ast.If) and "__name__" not in ast.unparse(node.test)
        )
        self._unsure = {id(each) for node in conditions for each in ast.walk(node)}
        self._bases = [
            base for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases
        ]

    def added(self) -> Iterator[Added]:
        """Yield what the calls of add_argument add, except to subcommands, which no job gives."""
        for call in self.calls:
            is_alias = isinstance(call.func, ast.Name) and call.func.id in self._aliases
            if not is_alias and _last(call.func) != "add_argument":
                continue
            owners = list(self._owners(call.func))
            if not any(_last(owner.func) == "add_parser" for owner in owners):
                yield from self._of_call(call, owners)

    def leads_away(self) -> bool:
        """Return whether a parser comes from elsewhere, or goes where options may be added."""
        parsers = {name for name, call in self._made.items() if _last(call.func) == PARSER}
        return any(_last(base).endswith("Parser") for base in self._bases) or any(
            _last(call.func) not in self.functions.keys() | {PARSER, "print"}
            and (
                any(ast.unparse(each) in parsers for each in call.args)
                or re.fullmatch(r"(?!Config)[A-Z]\w*Parser", _last(call.func)) is not None
            )
            for call in self.calls
        )

    def _owners(self, func: ast.expr) -> Iterator[ast.Call]:
        """Yield the calls that made what add_argument is called of: a group, its parser, ..."""
        for _ in range(_MAX_OWNERS):  # a group may have its parser's name
            value = func.value if isinstance(func, ast.Attribute) else func
            made = value if isinstance(value, ast.Call) else self._made.get(ast.unparse(value))
            if made is None:
                return
            yield made
            func = made.func

    def _of_call(self, call: ast.Call, owners: list[ast.Call]) -> Iterator[Added]:
        keywords = {str(each.arg): each.value for each in call.keywords}
        values = {name: self._literal(keywords[name]) for name in _READ if name in keywords}
        unread = {name for name, value in values.items() if value is _UNREAD}
        if values.get("action", "store") not in _ACTIONS:
            unread.add("action")
        if isinstance(values.get("nargs"), int) and values["nargs"] > _MAX_NUMBERS:
            unread.add("nargs")
        if "None" in keywords:  # **more
            unread |= {"action", "nargs", "type", "choices"}
        converter = converter_of(keywords.get("type"), self.functions)
        exclusive = (each for each in owners if _last(each.func) == "add_mutually_exclusive_group")
        more = (
            frozenset(unread if converter else {*unread, "type"}),
            converter,
            next(map(id, exclusive), None),
            id(call) not in self._unsure,
            knows_true(keywords.get("type"), self.functions),
        )
        arguments = {name: value for name, value in values.items() if name not in unread}
        for names in self._names(call):
            yield Added(names, arguments, *more)

    def _names(self, call: ast.Call) -> Iterator[tuple[str, ...]]:
        """Yield the names of each option that the call adds: several, where it is in a loop over
        names that are written there. Nothing in a tuple means: some option.
        """
        texts = [self._literal(each) for each in call.args]
        if texts and all(isinstance(text, str) for text in texts):
            yield tuple(texts)
            return
        loop = self._loops.get(id(call))
        names = _option_names(loop) if loop is not None else []
        if names:
            yield from ((name,) for name in names)
        else:
            yield ()

    def _literal(self, node: ast.expr) -> Any:
        if _last(node) == "BooleanOptionalAction":
            return "store_true"
        return _literal(node, self.constants)


def _defined(texts: tuple[str, ...]) -> tuple[dict[str, ast.FunctionDef], dict[str, Any]]:
    """Return the functions, and the names of what is written out, that have one meaning."""
    named = list[tuple[str, Any]]()
    for node in (node for text in texts for node in tree_of(text).body):
        if isinstance(node, ast.FunctionDef):
            named.append((node.name, node))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.append((node.targets[0].id, _literal(node.value, {})))
    names = [name for name, _ in named]
    once = {name: value for name, value in named if names.count(name) == 1}
    functions = {name: node for name, node in once.items() if isinstance(node, ast.FunctionDef)}
    written = {name: value for name, value in once.items() if value is not _UNREAD}
    return functions, {name: written[name] for name in written.keys() - functions.keys()}


def _literal(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """Return the value of what is written out, also under a name, or as range(...) of numbers."""
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.Call) and _last(node.func) == "keys":
        return _literal(getattr(node.func, "value", node.func), constants)
    if isinstance(node, ast.Call) and _last(node.func) in ("list", "tuple", "sorted") and node.args:
        return _literal(node.args[0], constants)
    try:
        if isinstance(node, ast.Call) and _last(node.func) == "range":
            numbers = range(*map(ast.literal_eval, node.args))
            return _UNREAD if numbers[_MAX_NUMBERS:] else numbers
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return _UNREAD


def _keyword(call: ast.Call, name: str) -> Any:
    values = (_literal(each.value, {}) for each in call.keywords if each.arg == name)
    return next(values, None) is True


def _last(node: ast.expr) -> str:
    """Return the last part of a dotted name; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _option_names(node: ast.expr) -> list[str]:
    texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return [text for text in texts if isinstance(text, str) and re.match(r"--|-[A-Za-z]$", text)]


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
    """Return what `type=NODE` calls; None if that is not known.

    `functions` are the script's.
    """
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
