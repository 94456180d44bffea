"""The command line options of a training script, read from its source without running it.

So a hyperparameter that the script would refuse is a mistake of the environment file, not of a job
that costs money. SageMaker gives a script nothing but `--name value` for each hyperparameter
(sagemaker-training 5.1.4, mapping.py, to_cmd_args; read). Python's own argparse judges the values;
what cannot be read of an option is a risk, or silence.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from shoal.pipelines.checks.parsers import Added, Parser, modules_of, parser_of
from shoal.settings.hyperparameters import as_argument, as_sent, parameter_name
from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Training

_OF_JOB = ("-dir", "_dir")
"""Ends of options that SageMaker's variables and the pipeline set: folders of the job."""
_KEY = "training.hyperparameters"
_FLAGS = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
_TRUE, _FALSE = ("true", "1", "yes", "on", "y", "t"), ("false", "0", "no", "off", "n", "f")


class _RefusedError(Exception):
    """argparse would end the script."""


class _Judge(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _RefusedError(message)


@dataclass(frozen=True)
class Option:
    """One option of a script."""

    added: Added
    ignores_values: bool = False
    """Whether the script goes on where a flag is followed by a value."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return its names with dashes, with `--no-` where it has that."""
        return self.added.names

    @property
    def unread(self) -> frozenset[str]:
        """Return what of it cannot be read."""
        return self.added.unread

    def mistake_in(self, text: str) -> str | None:
        """Return why the script would refuse this argument, or take it for its contrary."""
        if "action" in self.unread or "nargs" in self.unread:
            return None
        action = self.added.arguments.get("action", "store")
        if action in _FLAGS:
            if self.ignores_values and text.lower() in _TRUE:
                return None
            what = "is on whatever its value" if self.ignores_values else "takes no value"
            return f"is for a flag (action {action}), which {what}, and SageMaker gives it one"
        try:
            value = self._parsed(text)
        except _RefusedError as error:
            reason = str(error).rpartition(f"{'/'.join(self.names)}: ")[2]
            return f"is refused by the script: {reason}"
        if isinstance(value, float) and not math.isfinite(value):
            return "is not a finite number"
        for words, meant in ((_TRUE, True), (_FALSE, False)):
            if isinstance(value, bool) and text.lower() in words and value is not meant:
                return f"becomes {value} in the script"
        return None

    def _parsed(self, text: str) -> object:
        """Return what argparse makes of the option with this value. Raises _RefusedError."""
        arguments = {
            name: value
            for name, value in self.added.arguments.items()
            if name not in ("required", "const")
            and not (name == "choices" and "type" in self.unread)
        }
        judge = _Judge(add_help=False, allow_abbrev=False)
        convert = self.added.converter or str

        def converted(word: str) -> object:
            try:
                return convert(word)
            except (argparse.ArgumentTypeError, TypeError, ValueError):
                raise
            except Exception as error:  # it would end the script with a traceback
                raise argparse.ArgumentTypeError(f"{type(error).__name__}: {error}") from error

        converted.__name__ = getattr(convert, "__name__", "")
        try:
            judge.add_argument(*self.names, dest="value", type=converted, **arguments)
        except (TypeError, ValueError):  # the script's own mistake, or a newer argparse
            return text
        value = judge.parse_args([self.names[0], text]).value
        return value[0] if isinstance(value, list) and len(value) == 1 else value


def parser_at(source_dir: str, entry_point: str, root: Path | None) -> Parser:
    """Return what the script and the modules of its folder that it imports take."""
    if root is None or not (root / source_dir / entry_point).is_file():
        return Parser()
    files = [root / source_dir / entry_point, *modules_of(root / source_dir, entry_point)]
    return parser_of(tuple(file.read_text(encoding="utf-8") for file in files))


def matches(parser: Parser, name: str) -> list[Option]:
    """Return the options that argparse could take a hyperparameter's name for."""
    given = f"--{name}" if len(name) > 1 else f"-{name}"
    ignores = parser.takes_others or bool(parser.positionals)
    options = [Option(added, ignores) for added in parser.options]
    exact = [option for option in options if given in option.names]
    if exact or not (parser.abbreviates and given.startswith("--")):
        return exact[-1:]
    return [option for option in options if any(each.startswith(given) for each in option.names)]


def parameters_of(training: Training, entry_point: str, root: Path | None) -> Mapping[str, Option]:
    """Return the script's option for each parameter of Shoal's pipeline that sets one."""
    parser = parser_at(training.source_dir, entry_point, root)
    found = {name: matches(parser, name) for name in training.hyperparameters}
    return {parameter_name(name): some[0] for name, some in found.items() if len(some) == 1}


def problems_of(training: Training, entry_point: str, root: Path | None) -> Iterator[Problem]:
    """Yield the hyperparameters that the script does not know, or whose values it would refuse, and
    what it needs and does not get.
    """
    parser = parser_at(training.source_dir, entry_point, root)
    given = list[Added]()
    for name, value in training.hyperparameters.items():
        options = matches(parser, name)
        if len(options) == 1:
            given.append(options[0].added)
        if problem := _problem(name, as_argument(as_sent(value)), options, parser, entry_point):
            yield Problem(f"{_KEY}.{name}", *problem, value)
    yield from _needed(parser, given, entry_point)


def _problem(
    name: str, text: str, options: list[Option], parser: Parser, script: str
) -> tuple[str, str] | None:
    """Return what is wrong with a hyperparameter, and what to do."""
    if len(options) > 1:
        names = ", ".join(option.names[0] for option in options)
        return f"may stand for each of {names} in {script}", "write the whole name"
    if options:
        if mistake := options[0].mistake_in(text):
            is_flag = options[0].added.arguments.get("action") in _FLAGS
            advice = f"let {script} take text, or leave it out" if is_flag else ""
            return mistake, advice or f"give what {script} takes"
    elif parser.knows_all and (parser.options or parser.positionals):
        known = [each.lstrip("-") for added in parser.options for each in added.names]
        names = ", ".join(each for each in known if not each.endswith(_OF_JOB))
        return f"is not an option of {script}, which has: {names}", "correct the name, or remove it"
    return None


def _needed(parser: Parser, given: list[Added], script: str) -> Iterator[Problem]:
    """Yield what the script needs and no job gives it, if it has one parser alone."""
    if not parser.is_single:
        return
    needed = [
        added.names[0].lstrip("-")
        for added in parser.options
        if added.arguments.get("required") is True and added.is_sure and added not in given
    ]
    if needed:
        message = f"lack {', '.join(needed)}, without which {script} ends at once"
        yield Problem(_KEY, message, "add it")
    groups = [added.group for added in given if added.group is not None]
    for group in dict.fromkeys(groups):
        if groups.count(group) > 1:
            names = " and ".join(added.names[0] for added in given if added.group == group)
            message = f"have {names}, of which {script} takes one alone"
            yield Problem(_KEY, message, "remove the others")
    for group in parser.needed_groups - set(groups):
        names = ", ".join(added.names[0] for added in parser.options if added.group == group)
        yield Problem(_KEY, f"have none of {names}, one of which {script} needs", "add one")
    words = [
        added.names[0]
        for added in parser.positionals
        if added.is_sure and added.arguments.get("nargs") not in ("?", "*", *added.unread)
    ]
    if words or parser.needs_command:
        what = f"words without a name ({', '.join(words)})" if words else "a subcommand"
        message = f"needs {what}, and SageMaker gives it `--name value` alone"
        yield Problem("training.entry_point", message, "make options of them", script)


def risks_of(training: Training, entry_point: str, root: Path | None) -> Iterator[str]:
    """Yield the values of which cannot be read what the script makes of them."""
    parser = parser_at(training.source_dir, entry_point, root)
    for name, value in training.hyperparameters.items():
        for option in matches(parser, name):
            is_unsure = isinstance(value, bool) and not option.added.knows_true
            unread = option.unread & {"action", *(["type"] if is_unsure else [])}
            if unread:
                yield (
                    f"{_KEY}.{name} arrives as {as_argument(as_sent(value))}: what {entry_point}"
                    f" makes of it ({', '.join(sorted(unread))}) is not read"
                )
