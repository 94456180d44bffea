"""The command line of a training script, made again from its syntax tree without running it.

So a hyperparameter that the script would refuse is a mistake of the environment file, not of a job
that costs money. SageMaker gives a script nothing but `--name value` for each hyperparameter
(sagemaker-training 5.1.4, mapping.py, to_cmd_args; read). The calls that make the script's parser
are made again with what is written out in them, and Python's own argparse judges.

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
from typing import Any, NoReturn

from shoal.settings.parsing.shared_code import tree_of

_OF_JOB = ("-dir", "_dir")
"""Ends of options that SageMaker's variables and the pipeline set: folders of the job."""
_FLAGS = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
_ACTIONS = ("store", "append", "extend", *_FLAGS)
_TRUE, _FALSE = ("true", "1", "yes", "on", "y", "t"), ("false", "0", "no", "off", "n", "f")
_LACKS = ("the following arguments are required", "one of the arguments")
"""How argparse begins to say what is missing."""
_ADD, _PARSER, _EXCLUSIVE = "add_argument", "ArgumentParser", "add_mutually_exclusive_group"
_MAKERS = {_PARSER, _EXCLUSIVE, "add_argument_group", "add_subparsers", "add_parser"}
_READ = ("action", "nargs", "choices", "required")
_UNREAD = object()
_MAX_NUMBERS = 10_000
"""Of a range, and of values of one option: argparse names each that may be given."""


class _RefusedError(Exception):
    """argparse would end the script."""


class _Judge(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _RefusedError(message)


@dataclass(frozen=True)
class Option:
    """One call of add_argument."""

    names: tuple[str, ...]
    """As the script writes them: `-e`, `--epochs`; of a positional argument its only name."""
    action: str
    unread: frozenset[str]
    """Which of action, nargs, choices, required and type cannot be read."""
    knows_true: bool
    """Whether a converter of the script's own has a word for true."""


@dataclass
class Script:
    """All that a script and its modules add to the parser of its command line."""

    name: str
    judge: _Judge = field(default_factory=lambda: _Judge())
    options: list[Option] = field(default_factory=list)
    """Their number is what the judge calls each."""
    knows_all: bool = False
    """Whether there are no further options."""
    takes_others: bool = False
    """Whether what no option takes is no mistake."""

    def parse(self, *words: str) -> tuple[dict[Option, Any], list[str], str]:
        """Return what each option gets, the words that none takes, and argparse's complaint."""
        values, rest, complaint = argparse.Namespace(), list[str](), ""
        try:
            _, rest = self.judge.parse_known_args(words, values)
        except _RefusedError as error:
            complaint = str(error)
        except Exception as error:  # noqa: BLE001 (a converter's: the script ends with a traceback)
            complaint = f"traceback: {type(error).__name__}: {error}"
        given = {self.options[int(name)]: value for name, value in vars(values).items()}
        return {each: given[each] for each in given if each.names[0][0] == "-"}, rest, complaint

    def mistake_in(self, name: str, text: str) -> str | None:
        """Return why the script would refuse a hyperparameter, or take it for its contrary."""
        given, rest, complaint = self.parse(word_of(name), text)
        if complaint and not complaint.startswith(_LACKS):
            return f"is refused by the script: {complaint.partition(': ')[2]}"
        for option, value in given.items():
            if option.action in _FLAGS:
                is_ignored = self.takes_others or text not in rest
                if is_ignored and text.lower() in _TRUE:
                    return None
                what = "is on whatever its value" if is_ignored else "takes no value"
                return f"is for a flag (action {option.action}), which {what}, and gets one"
            return _mistaken(text, value)
        return self._unknown() if self.knows_all and self.options else None

    def _unknown(self) -> str:
        known = [each.lstrip("-") for option in self.options for each in option.names]
        names = ", ".join(each for each in known if not each.endswith(_OF_JOB))
        return f"is not an option of {self.name}, which has: {names}"


def word_of(name: str) -> str:
    """Return a hyperparameter's name as the toolkit gives it to the script."""
    return f"--{name}" if len(name) > 1 else f"-{name}"


def _mistaken(text: str, value: Any) -> str | None:
    """Return how a value that argparse takes would be another in the script."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    for words, meant in ((_TRUE, True), (_FALSE, False)):
        if isinstance(value, bool) and text.lower() in words and value is not meant:
            return f"becomes {value} in the script"
    return None


@cache
def script_of(name: str, texts: tuple[str, ...]) -> Script:
    """Return what a script and its modules, given by their texts, take together."""
    functions, constants = _defined(texts)
    nodes = (node for text in texts for node in ast.walk(tree_of(text)))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    parsers = [each for each in calls if _last(each.func) == _PARSER]
    keywords = [(each.arg, _literal(each.value, {})) for call in parsers for each in call.keywords]
    judge = _Judge(
        add_help=False,
        allow_abbrev=("allow_abbrev", False) not in keywords,
        conflict_handler="resolve",
        argument_default=argparse.SUPPRESS,
    )
    takes_others = any(_last(call.func).startswith("parse_known") for call in calls)
    script = Script(name, judge, takes_others=takes_others)
    # of several parsers nobody says which one is used, so nothing is required
    files = [_File(script, text, functions, constants, len(parsers) == 1) for text in texts]
    is_whole = [file.add_options() and not file.leads_away() for file in files]
    is_own = bool(parsers) and "parents" not in dict(keywords)
    script.knows_all = all(is_whole) and is_own and not takes_others
    return script


@dataclass
class _File:
    """Makes the calls of one file again."""

    script: Script
    text: str
    functions: Mapping[str, ast.FunctionDef]
    constants: Mapping[str, Any]
    has_only_parser: bool

    def __post_init__(self) -> None:
        nodes = list(ast.walk(tree_of(self.text)))
        self.calls = [node for node in nodes if isinstance(node, ast.Call)]
        assigned = [
            (ast.unparse(target), node.value)
            for node in nodes
            if isinstance(node, ast.Assign)
            for target in node.targets
        ]
        self._made = {  # groups, subcommands and parsers by the names that they have here
            name: value
            for name, value in assigned
            if isinstance(value, ast.Call) and _last(value.func) in _MAKERS
        }
        self._aliases = {name for name, value in assigned if _last(value) == _ADD}
        loops = [node for node in nodes if isinstance(node, ast.For)]
        self._loops = {id(call): loop.iter for loop in loops for call in ast.walk(loop)}
        self._unsure = {
            id(each)
            for node in nodes
            if isinstance(node, ast.If) and "__name__" not in ast.unparse(node.test)
            for each in ast.walk(node)
        }
        self._classes = [node for node in nodes if isinstance(node, ast.ClassDef)]

    def add_options(self) -> bool:
        """Add what the calls of add_argument add, except to subcommands, which no job gives; return
        whether all names are known.
        """
        judge, groups, is_whole = self.script.judge, dict[int, Any](), True
        for call in self.calls if self.has_only_parser else ():
            required = any(
                each.arg == "required" and self._literal(each.value) is True
                for each in call.keywords
            )
            if _last(call.func) == _EXCLUSIVE:
                groups[id(call)] = judge.add_mutually_exclusive_group(required=required)
            elif _last(call.func) == "add_subparsers" and required:
                self._add(judge, ("subcommand",), {}, is_needed=True)
        for call in self.calls:
            if _last(call.func) != _ADD and ast.unparse(call.func) not in self._aliases:
                continue
            owners = list(self._owners(call.func))
            if any(_last(owner.func) == "add_parser" for owner in owners):
                continue
            group = next((groups[id(each)] for each in owners if id(each) in groups), judge)
            is_needed = self.has_only_parser and id(call) not in self._unsure
            keywords = {str(each.arg): each.value for each in call.keywords}
            names = self._names(call)
            is_whole = is_whole and bool(names)
            for each in names:
                self._add(group, each, keywords, is_needed=is_needed)
        return is_whole

    def leads_away(self) -> bool:
        """Return whether a parser comes from elsewhere, or goes where options may be added."""
        parsers = {name for name, call in self._made.items() if _last(call.func) == _PARSER}
        bases = [base for each in self._classes for base in each.bases]
        return any(_last(base).endswith("Parser") for base in bases) or any(
            _last(call.func) not in self.functions.keys() | {_PARSER, "print"}
            and (
                any(ast.unparse(each) in parsers for each in call.args)
                or re.fullmatch(r"(?!Config)[A-Z]\w*Parser", _last(call.func)) is not None
            )
            for call in self.calls
        )

    def _owners(self, func: ast.expr) -> Iterator[ast.Call]:
        """Yield the calls that made what add_argument is called of: a group, its parser, ..."""
        for _ in range(4):  # a group may have its parser's name
            value = func.value if isinstance(func, ast.Attribute) else func
            made = value if isinstance(value, ast.Call) else self._made.get(ast.unparse(value))
            if made is None:
                return
            yield made
            func = made.func

    def _names(self, call: ast.Call) -> list[tuple[str, ...]]:
        """Return the names of each option that the call adds: several, where it is in a loop over
        names that are written there; none, where they are not known.
        """
        texts = [self._literal(each) for each in call.args]
        if texts and all(isinstance(text, str) for text in texts):
            return [tuple(texts)]
        loop = self._loops.get(id(call))
        nodes = ast.walk(loop) if loop is not None else ()
        constants = [each.value for each in nodes if isinstance(each, ast.Constant)]
        return [
            (each,)
            for each in constants
            if isinstance(each, str) and re.match(r"--|-[A-Za-z]$", each)
        ]

    def _add(
        self,
        group: Any,
        names: tuple[str, ...],
        keywords: Mapping[str, ast.expr],
        *,
        is_needed: bool,
    ) -> None:
        """Add one option, as far as it is read."""
        values = {name: self._literal(keywords[name]) for name in _READ if name in keywords}
        unread = {name for name, value in values.items() if value is _UNREAD}
        if (action := values.get("action", "store")) not in _ACTIONS:
            unread.add("action")
        if isinstance(values.get("nargs"), int) and values["nargs"] > _MAX_NUMBERS:
            unread.add("nargs")
        if "None" in keywords:  # **more
            unread |= {"action", "nargs", "type", "choices"}
        kind = keywords.get("type")
        if (converter := _converter_of(kind, self.functions)) is None:
            unread |= {"type", "choices"}
        number, is_option = str(len(self.script.options)), names[0].startswith("-")
        option = Option(names, str(action), frozenset(unread), _knows_true(kind, self.functions))
        self.script.options.append(option)
        taken = {name: value for name, value in values.items() if name not in unread}
        if not (is_needed and is_option):
            taken.pop("required", None)
        if not (is_needed or is_option):
            taken["nargs"] = "*"
        if is_option or taken.get("nargs") not in ("?", "*"):
            taken |= {"type": converter or str}
        else:  # no job gives one, and argparse converts its default
            taken.pop("choices", None)
        if action in _FLAGS:
            taken = {"action": "store_true"}
        if unread & {"action", "nargs"}:
            taken = {"nargs": "*"}
        words = names if is_option else (number,)
        named: dict[str, Any] = (
            {"dest": number} if is_option else {"metavar": names[0], "default": None}
        )
        try:
            group.add_argument(*words, **named, **taken)
        except (TypeError, ValueError):  # the script's own mistake, or a newer argparse
            self.script.judge.add_argument(*words, **named, nargs="*")

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


def _last(node: ast.expr) -> str:
    """Return the last part of a dotted name; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


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


def _converter_of(
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


def _knows_true(node: ast.expr | None, functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Return whether a converter of the script's own has a word for true, as SageMaker sends it."""
    if node is None:
        return False
    nodes = ast.walk(functions.get(ast.unparse(node), node))
    texts = [each.value for each in nodes if isinstance(each, ast.Constant)]
    return any(isinstance(text, str) and text.lower() == "true" for text in texts)
