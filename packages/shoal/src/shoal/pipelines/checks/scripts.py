"""What the contract of the scripts asks (docs/bring-your-model.md), as far as their text says it.

A script that lacks a part of it is a mistake here, not of a job that costs money. What only seems
to be missing, because a package could bring it, is told as a risk.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from shoal.launch.errors import Risk
from shoal.pipelines.checks.script_options import modules_of
from shoal.settings.loading.container_code import ENTRY_POINT
from shoal.settings.loading.workload import workload_file
from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Environment

PAGE = "docs/bring-your-model.md"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_EVALUATION_OPTIONS = ("--model-dir", "--test-dir", "--output-dir")
_WORDS = ("evaluation.json", "archive_sha256", "content_sha256", "training_job_name")


def problems(environment: Environment, entry_point: str, root: Path | None) -> Iterator[Problem]:
    """Yield what scripts that are there lack; `entry_point` is the one that trains.

    A pipeline of one's own has a contract of its own: its scripts must be readable, no more.
    """
    if root is None:
        return
    folder = root / environment.training.source_dir
    evaluation = environment.evaluation.entry_point
    scripts = {"training.entry_point": entry_point, "evaluation.entry_point": evaluation}
    unreadable = [
        problem for key, script in scripts.items() for problem in _unreadable(key, folder, script)
    ]
    yield from dict.fromkeys(unreadable)
    if not unreadable and environment.pipeline is None:
        for key, script in scripts.items():
            yield from _without_main(key, folder, script)
        yield from _missing_options(folder, evaluation)
        yield from _unwritten_metrics(environment, folder)
        if environment.endpoint is not None and environment.endpoint.image_uri is None:
            yield from _missing_inference(environment, folder)


def notices(environment: Environment, root: Path | None) -> Iterator[str]:
    """Yield a line if no Python file of the source directory has a word of the contract."""
    if root is None or environment.pipeline is not None:
        return
    source_dir = environment.training.source_dir
    text = "\n".join(map(_text, (root / source_dir).rglob("*.py")))
    if unsaid := _unsaid(_WORDS, text):
        yield Risk(
            f"no script in {source_dir} says {', '.join(unsaid)}, which evaluation.json or the"
            f" answers must have; see {PAGE}"
        )


def _unwritten_metrics(environment: Environment, folder: Path) -> Iterator[Problem]:
    """Yield a problem if a gate's metric stands nowhere in the evaluation and what it uses of its
    folder. A comment counts: a script may put the name together when it runs.
    """
    script = environment.evaluation.entry_point
    metrics = dict.fromkeys(gate.metric for gate in environment.evaluation.gates)
    if unsaid := _unsaid(metrics, _text_with_modules(folder, script)):
        message = (
            f"name {', '.join(unsaid)}, which {script} never says: after the training, the gate"
            " would find no such number"
        )
        file = workload_file(environment.workload)
        advice = f"correct it (here, or in {file}); if {script} computes it, name it in a comment"
        yield Problem("evaluation.gates", message, advice)


def _unsaid(words: Iterable[str], text: str) -> list[str]:
    return [word for word in words if not re.search(rf"\b{re.escape(word)}\b", text)]


def _text_with_modules(folder: Path, script: str) -> str:
    """Return the text of a script and of every file of its folder that one of them may import:
    that says the file's name, or its package's.
    """
    text, rest = _text(folder / script), set(folder.rglob("*.py"))
    while used := {file for file in rest if _says_name(text, file.relative_to(folder))}:
        text, rest = "\n".join((text, *map(_text, used))), rest - used
    return text


def _says_name(text: str, file: Path) -> bool:
    words = set(re.findall(r"\w+", text))
    return any(part.removesuffix(".py") in words for part in file.parts)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _unreadable(key: str, folder: Path, script: str) -> Iterator[Problem]:
    """Yield a problem if Python cannot read a script, or a module in its folder that it imports."""
    if mistake := _mistake_in(folder / script):
        yield Problem(key, mistake, "correct it", script)
        return
    for module in modules_of(folder, script):
        if mistake := _mistake_in(module):
            yield Problem("training.source_dir", f"{module.name}: {mistake}", "correct it")


def _mistake_in(script: Path) -> str | None:
    """Return why Python cannot read a script; None if it can."""
    version = ".".join(map(str, sys.version_info[:2]))
    try:
        _body(script.read_text(encoding="utf-8"))
    except SyntaxError as error:
        return f"Python {version} cannot read line {error.lineno}: {error.msg}"
    except ValueError as error:  # not UTF-8, or NUL
        return f"Python {version} cannot read it: {error}"
    return None


def _without_main(key: str, folder: Path, script: str) -> Iterator[Problem]:
    """Yield a problem for a script that imports and defines, and starts nothing of it.

    One that only imports a module of its folder may start it so.
    """
    body = _body((folder / script).read_text(encoding="utf-8"))
    defines = any(isinstance(node, _DEFINITIONS) for node in body)
    if any(map(_does_something, body)) or (not defines and modules_of(folder, script)):
        return
    message = "calls nothing: a job with it would end at once, without a result"
    advice = 'end it with `if __name__ == "__main__":` and a call'
    yield Problem(key, message, advice, script)


@cache
def _body(text: str) -> tuple[ast.stmt, ...]:
    return tuple(ast.parse(text).body)


def _does_something(node: ast.stmt) -> bool:
    if isinstance(node, (*_DEFINITIONS, ast.Import, ast.ImportFrom)):
        return False
    is_block = isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try)
    return is_block or any(isinstance(each, ast.Call) for each in ast.walk(node))


def _missing_options(folder: Path, script: str) -> Iterator[Problem]:
    """Yield a problem for an evaluation that reads its options by argparse, but not those that it
    is given.
    """
    own, *others = (
        file.read_text(encoding="utf-8") for file in (folder / script, *modules_of(folder, script))
    )
    if "ArgumentParser(" not in own or "parse_known_args" in own:
        return
    text = "\n".join((own, *others))
    if missing := [option for option in _EVALUATION_OPTIONS if option not in text]:
        message = f"takes no {', '.join(missing)}, which the pipeline gives it"
        yield Problem("evaluation.entry_point", message, f"add it; see {PAGE}", script)


def _missing_inference(environment: Environment, folder: Path) -> Iterator[Problem]:
    """Yield a problem if there is nothing that AWS's image could run."""
    if not (folder / ENTRY_POINT).is_file():
        message = (
            f"there is no {ENTRY_POINT} in it, which training copies into the model and the"
            " endpoint runs"
        )
        source_dir = environment.training.source_dir
        yield Problem("training.source_dir", message, f"write it; see {PAGE}", source_dir)
