"""The rules of a workload's own function for its smoke test, as far as its text tells them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from config.errors import Problem

KEY = "smoke_test.function"
NAME = "check"
MAX_BYTES = 256 * 1024
MODULES = frozenset({*sys.stdlib_module_names, "boto3", "botocore", "jmespath"})
"""What Lambda's Python runtime has; jmespath comes with boto3."""


def problems_of_function(file: Path, shown: str) -> Iterator[Problem]:
    """Yield what is wrong with the file, which the workload's file calls `shown`."""
    if not file.is_file():
        yield Problem(KEY, "there is no such file", "write it, or remove the key", shown)
        return
    if (size := file.stat().st_size) > MAX_BYTES:
        yield Problem(KEY, f"has {size:,} bytes; {MAX_BYTES:,} are packed", "shorten it", shown)
        return
    try:
        module = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError as error:
        message = f"is not Python: {error.msg}, line {error.lineno}"
        yield Problem(KEY, message, "correct it", shown)
        return
    except (ValueError, RecursionError, MemoryError) as error:
        yield Problem(KEY, f"cannot be read as Python: {error}", "correct it", shown)
        return
    yield from _missing_function(module, shown)
    for name in sorted(set(_imported(module)) - MODULES):
        advice = "use Python's standard library and boto3"
        yield Problem(
            KEY, f"imports {name or 'from its folder'}, which is not there", advice, shown
        )


def _missing_function(module: ast.Module, shown: str) -> Iterator[Problem]:
    functions = [each for each in module.body if isinstance(each, ast.FunctionDef)]
    check = next((each for each in functions if each.name == NAME), None)
    if check is None:
        message = f"has no function {NAME}"
        advice = f"write `def {NAME}(ask):`, which returns a list of what is wrong"
        yield Problem(KEY, message, advice, shown)
    elif len(check.args.posonlyargs + check.args.args) != 1:
        message = f"has a function {NAME} that does not take one argument"
        yield Problem(KEY, message, f"write `def {NAME}(ask):`", shown)


def _imported(module: ast.Module) -> Iterator[str]:
    """Yield the first part of every module that is imported; nothing of a relative one."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else str(node.module).partition(".")[0]
