"""The command line options of a training script, read from its source without running it.

So a hyperparameter that the script would refuse is a mistake of the environment file, not of a job
that costs money. Only the scripts in `training_code/` are read, whose argparse is written for this;
other scripts may do with their options what they like.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.hyperparameters import as_argument, as_sent, parameter_name
from shoal.settings.settings import Training

FOLDER = "training_code"
_OF_JOB = ("-dir", "_dir")
"""Ends of options that SageMaker's variables and the pipeline set: folders of the job."""


@dataclass(frozen=True)
class Option:
    """One option of a script."""

    name: str
    kind: str = "str"
    """The name of the function that converts the text: str, int, float, Path, or one of ours
    (`_mistake_of`).
    """
    choices: tuple[str, ...] = ()

    def mistake_in(self, text: str) -> str | None:
        """Return why the script would refuse this argument."""
        if self.choices and text not in self.choices:
            return f"is not one of {', '.join(self.choices)}"
        return _mistake_of(self.kind, text)


def _mistake_of(kind: str, text: str) -> str | None:
    number = float(text) if _is_number(text) else None
    match kind:
        case "_positive" if not (_is_whole(text) and int(text) >= 1):
            return "is not a whole number of 1 or more"
        case "_positive_number" if number is None or number <= 0:
            return "is not a number above 0"
        case "_share" if number is None or not 0 <= number <= 1:
            return "is not a number from 0 to 1"
        case "_switch" if text.lower() not in ("true", "false", "1", "0"):
            return "is neither true nor false"
        case "int" if not _is_whole(text):
            return "is not a whole number"
        case "float" if number is None:
            return "is not a number"
    return None


def options_of(source_dir: str, entry_point: str, root: Path | None) -> Mapping[str, Option]:
    """Return the script's options by name, without dashes.

    There are none for a script that is not ours, or that takes others than those that it adds.
    """
    source = Path(source_dir)
    if root is None or source.parts[:1] != (FOLDER,):
        return {}
    script = root / source / entry_point
    files = [script, *modules_of(root / source, entry_point)] if script.is_file() else []
    texts = [file.read_text(encoding="utf-8") for file in files]
    if any("parse_known_args" in text for text in texts):
        return {}
    return {option.name: option for text in texts for option in _options_in(text)}


def parameters_of(training: Training, entry_point: str, root: Path | None) -> Mapping[str, Option]:
    """Return the script's option for each parameter of Shoal's pipeline that sets one."""
    options = options_of(training.source_dir, entry_point, root)
    return {
        parameter_name(name): options[name] for name in training.hyperparameters if name in options
    }


def problems_of(training: Training, entry_point: str, root: Path | None) -> Iterator[Problem]:
    """Yield the hyperparameters that the script does not know, or whose values it would refuse."""
    options = options_of(training.source_dir, entry_point, root)
    names = ", ".join(name for name in options if not name.endswith(_OF_JOB))
    for name, value in training.hyperparameters.items() if options else ():
        key = f"training.hyperparameters.{name}"
        if name not in options:
            message = f"is not an option of {entry_point}, which has: {names}"
            yield Problem(key, message, "correct the name, or remove it", value)
        elif mistake := options[name].mistake_in(as_argument(as_sent(value))):
            message = f"arrives as {value}, which {mistake}" if isinstance(value, bool) else mistake
            yield Problem(key, message, f"give what {entry_point} takes", value)


def modules_of(folder: Path, entry_point: str) -> list[Path]:
    """Return the modules in the folder that a script imports by name. The script must be there,
    and readable.
    """
    nodes = list(ast.walk(tree_of((folder / entry_point).read_text(encoding="utf-8"))))
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    return [module for name in names if (module := folder / f"{name}.py").is_file()]


@cache
def tree_of(text: str) -> ast.Module:
    """Return the syntax tree of a script's text; raise SyntaxError or ValueError if it has none.

    The cache is by text, not by file: environments share scripts, each is read more than once, and
    parsing was a third of `shoal check`.
    """
    return ast.parse(text)


@cache
def _options_in(text: str) -> tuple[Option, ...]:
    """Return the options that calls of add_argument add, under any name that the script gives it,
    and in loops over names that are written there.
    """
    nodes, options = list(ast.walk(tree_of(text))), list[Option]()
    loops = [node for node in nodes if isinstance(node, ast.For)]
    names_of = {id(call): _option_names(loop.iter) for loop in loops for call in ast.walk(loop)}
    aliases = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _is_add_argument(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in nodes:
        if isinstance(call, ast.Call) and _is_add_argument(call.func, aliases):
            keywords = {keyword.arg: keyword.value for keyword in call.keywords}
            kind, choices = _name(keywords.get("type")), _texts(keywords.get("choices"))
            for node in call.args:
                is_of_loop = isinstance(node, ast.Name)
                names = names_of.get(id(call), []) if is_of_loop else _option_names(node)
                options += [Option(name, kind, choices) for name in names]
    return tuple(options)


def _is_add_argument(node: ast.expr, aliases: Collection[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in aliases
    return isinstance(node, ast.Attribute) and node.attr == "add_argument"


def _option_names(node: ast.expr) -> list[str]:
    """Return them as hyperparameters are named: the toolkit gives a name of one letter one dash."""
    texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return [
        text.lstrip("-")
        for text in texts
        if isinstance(text, str) and re.match(r"--|-[A-Za-z]$", text)
    ]


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else "str"


def _texts(node: ast.expr | None) -> tuple[str, ...]:
    items = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    return tuple(str(item.value) for item in items if isinstance(item, ast.Constant))


def _is_whole(text: str) -> bool:
    return text.strip().lstrip("+-").isdecimal()


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
