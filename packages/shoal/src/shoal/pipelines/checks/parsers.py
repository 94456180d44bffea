"""The command line of a training script, made again from its syntax tree without running it.

So a hyperparameter that the script would refuse is a mistake of the environment file, not of a job
that costs money. SageMaker gives a script nothing but `--name value` for each hyperparameter
(sagemaker-training 5.1.4, mapping.py, to_cmd_args; read). The calls that make the script's parser
are made again with what is written out in them, and Python's own argparse judges.

What cannot be read is left open: names that are put together, parsers that other packages make.
"""

import argparse
import ast
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

from shoal.pipelines.checks.converters import converter_of, knows_true
from shoal.settings.parsing.plain_files import tree_of

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
    words: list[str] = field(default_factory=list)
    """The positional arguments that must be given."""
    needs_command: bool = False

    @property
    def needs(self) -> str:
        """Return what must be given that has no option's name; empty, if nothing must."""
        if self.words:
            return f"words without a name ({', '.join(self.words)})"
        return "a subcommand" if self.needs_command else ""

    def parse(self, *words: str) -> tuple[dict[Option, Any], list[str], str]:
        """Return what each option gets, the words that none takes, and argparse's complaint."""
        values, rest, complaint = argparse.Namespace(), list[str](), ""
        try:
            _, rest = self.judge.parse_known_args(words, values)
        except _RefusedError as error:
            complaint = str(error)
        except Exception as error:  # noqa: BLE001 (a converter's: the script ends with a traceback)
            complaint = f"traceback: {type(error).__name__}: {error}"
        given = ((self.options[int(name)], value) for name, value in vars(values).items())
        named = {option: value for option, value in given if option.names[0].startswith("-")}
        return named, rest, complaint

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
        if not (self.knows_all and self.options):
            return None
        known = [each for option in self.options for each in option.names if each[:1] == "-"]
        names = ", ".join(each.lstrip("-") for each in known if not each.endswith(_OF_JOB))
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
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        self._bases = [_last(base) for node in classes for base in node.bases]

    def add_options(self) -> bool:
        """Add all options but those of subcommands; return whether all names are known."""
        judge, groups, is_whole = self.script.judge, dict[int, Any](), True
        for call in self.calls if self.has_only_parser else ():
            given = {each.arg: self._literal(each.value) for each in call.keywords}
            required = id(call) not in self._unsure and given.get("required") is True
            if _last(call.func) == _EXCLUSIVE and not self._is_of_command(call):
                groups[id(call)] = judge.add_mutually_exclusive_group(required=required)
            elif _last(call.func) == "add_subparsers" and required:
                self.script.needs_command = True
        added: dict[int, list[argparse.Action]] = {key: [] for key in groups}
        for call in self.calls:
            is_alias = ast.unparse(call.func) in self._aliases
            if not (_last(call.func) == _ADD or is_alias) or self._is_of_command(call):
                continue
            key = next((id(each) for each in self._owners(call.func) if id(each) in groups), 0)
            is_needed = self.has_only_parser and id(call) not in self._unsure
            keywords = {str(each.arg): each.value for each in call.keywords}
            names = self._names(call)
            is_whole = is_whole and bool(names)
            if key and not names:
                groups[key].required = False
            for each in names:
                action = self._add(groups.get(key, judge), each, keywords, is_needed=is_needed)
                if key and action is not None:
                    added[key].append(action)
        for key, actions in added.items():  # an option that a later one replaces has no names
            is_known = bool(actions) and all(each.option_strings for each in actions)
            groups[key].required = groups[key].required and is_known
        return is_whole

    def _is_of_command(self, call: ast.Call) -> bool:
        return any(_last(owner.func) == "add_parser" for owner in self._owners(call.func))

    def leads_away(self) -> bool:
        """Return whether a parser comes from elsewhere, or goes where options may be added."""
        parsers = {name for name, call in self._made.items() if _last(call.func) == _PARSER}
        return any(base.endswith("Parser") for base in self._bases) or any(
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
        """Return each option's names: several in a loop over written names, none if unknown."""
        texts = [self._literal(each) for each in call.args]
        if texts and all(isinstance(text, str) and text for text in texts):
            return [tuple(texts)]
        loop = self._loops.get(id(call))
        nodes = ast.walk(loop) if loop is not None else ()
        constants = [str(each.value) for each in nodes if isinstance(each, ast.Constant)]
        return [(each,) for each in constants if re.match(r"--|-[A-Za-z]$", each)]

    def _add(
        self,
        group: Any,
        names: tuple[str, ...],
        keywords: Mapping[str, ast.expr],
        *,
        is_needed: bool,
    ) -> argparse.Action | None:
        """Add one option, as far as it is read, and return it; None for a positional argument."""
        values = {name: self._literal(keywords[name]) for name in _READ if name in keywords}
        unread = {name for name, value in values.items() if value is _UNREAD}
        if (action := values.get("action", "store")) not in _ACTIONS:
            unread.add("action")
        if isinstance(values.get("nargs"), int) and values["nargs"] > _MAX_NUMBERS:
            unread.add("nargs")
        if "None" in keywords:  # **more
            unread |= {"action", "nargs", "type", "choices"}
        kind = keywords.get("type")
        if (converter := converter_of(kind, self.functions)) is None:
            unread |= {"type", "choices"}
        number = str(len(self.script.options))
        option = Option(names, str(action), frozenset(unread), knows_true(kind, self.functions))
        self.script.options.append(option)
        taken = {name: value for name, value in values.items() if name not in unread}
        if not names[0].startswith("-"):
            is_needed = is_needed and action not in _FLAGS and "nargs" not in unread
            if is_needed and taken.get("nargs") not in ("?", "*", "..."):
                self.script.words.append(names[0])
            # no job gives one, but it may take a value that follows a flag
            self.script.judge.add_argument(number, nargs="?", default=None)
            return None
        required = is_needed and taken.pop("required", False)
        taken |= {"type": converter or str}
        if action in _FLAGS:
            taken = {"action": "store_true"}
        if unread & {"action", "nargs"}:
            taken = {"nargs": "*"}
        taken["required"] = required
        if not (dashed := [each for each in names if re.match("-.", each)]):
            return None
        added: argparse.Action
        try:
            added = group.add_argument(*dashed, dest=number, **taken)
        except (TypeError, ValueError):  # the script's own mistake, or a newer argparse
            added = self.script.judge.add_argument(*dashed, dest=number, nargs="*")
        return added

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
