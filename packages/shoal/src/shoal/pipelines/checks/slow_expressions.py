"""Find expressions of metrics that take too long for one line, by trying them on hostile lines.

A process of its own tries them, because Python's `re` cannot be interrupted.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from re import _compiler, _parser  # type: ignore[attr-defined]
from typing import Any

from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Environment

LENGTH = 1000
"""Characters of a line that `shoal.aws.metrics` gives to an expression."""
_FILLERS = " 0a.x=:-,_\t/AZ\"'[](){}#%"
_MOST = 30
"""Repeats and alternatives: the lines grow with the third power of them."""
_TRIAL = """
import json, re, signal, sys
expression, lines = json.load(sys.stdin)
expression = re.compile(expression)
for line in lines:
    signal.setitimer(signal.ITIMER_VIRTUAL, 1)
    expression.search(line)
"""


def problems(environment: Environment) -> Iterator[Problem]:
    """Yield the metrics whose expressions are too slow for a line that a script could print."""
    for name, metric in environment.training.metrics.items():
        if is_slow(metric.regex):
            message = "could take a second for each line: two of its repeats match the same text"
            advice = r"begin with what stands before the number, as in loss[:=]\s*([0-9.]+)"
            yield Problem(f"training.metrics.{name}.regex", message, advice, metric.regex)


@cache
def is_slow(expression: str) -> bool:
    """Return whether a valid expression takes a second of processor time for one of the lines.

    One with a single repeat and no alternatives never does; one with very many is not tried.
    """
    parsed = _parser.parse(expression)
    if not 2 <= (count := len(re.findall("_REPEAT, |BRANCH, ", str(parsed)))) <= _MOST:
        return count > _MOST
    command = [sys.executable, "-I", "-S", "-c", _TRIAL]
    tried = json.dumps([expression, sorted(_lines(list(_leaves(parsed))))])
    try:
        subprocess.run(command, input=tried, text=True, timeout=60, check=True, capture_output=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return True  # the timer ended it, or its memory
    return False


def _lines(leaves: list[tuple[str, bool]]) -> set[str]:
    """Return lines that begin as a match, go on with a filler up to a repeat, and end or fail."""
    texts = [text for text, _ in leaves]
    starts = [number for number, (_, is_repeat) in enumerate(leaves) if is_repeat]
    pieces = {"".join(texts[start:end]) for start in (0, *starts) for end in (*starts, None)}
    begins = {"".join(texts[:number]) for number in (0, *starts)}
    fillers = {*_FILLERS, *texts, *pieces} - {""}
    whole = {(begin + each * LENGTH)[:LENGTH] for begin in begins for each in fillers}
    return whole | {line[: LENGTH - 1] + "\0" for line in whole}


def _leaves(items: Any) -> Iterator[tuple[str, bool]]:
    """Yield a text that each part of a parsed expression matches, and whether it is a repeat."""
    for item in items:
        name, argument = str(item[0]), item[1]
        if name.endswith("_REPEAT"):
            text = "".join(text for text, _ in _leaves(argument[2]))[:LENGTH]
            yield (text * min(max(argument[0], 1), LENGTH))[:LENGTH], True
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
            yield from _leaves(argument[-1])
        elif name == "ATOMIC_GROUP":
            yield from _leaves(argument)
        elif name in ("BRANCH", "GROUPREF_EXISTS"):
            for branch in filter(None, argument[1] if name == "BRANCH" else argument[1:]):
                yield from _leaves(branch)
        elif name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            part = _compiler.compile(_parser.SubPattern(items.state, [item]))
            letters = [chr(argument)] if name == "LITERAL" else map(chr, range(32, 127))
            yield next(filter(part.fullmatch, letters), ""), False
