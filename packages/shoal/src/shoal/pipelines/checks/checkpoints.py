"""Whether an interrupted job goes on or begins again, as far as the text of its scripts says.

Only that they name the folder can be read, not that they write all that is needed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from shoal.pipelines.checks.parsers import modules_of, tree_of
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.plain_files import packed_files
from shoal.settings.parsing.shared_code import PACKAGE
from shoal.settings.settings import Training

FOLDER = "/opt/ml/checkpoints"
LONG_S = 86_400
"""A day: what a job may take where nobody says more (API reference, StoppingCondition)."""
_TEXT = re.compile(rf"{FOLDER}|checkpoint[-_]dir", re.IGNORECASE)
_LAST, _FIRST = re.compile("(^|/)checkpoints/?$"), re.compile("/opt/ml|SM_")
"""Both parts of a path that is put together; the last alone is below the working directory."""
_NAME = re.compile(r"checkpoint_?dir", re.IGNORECASE)
_CONFIGURATION = {".cfg", ".ini", ".json", ".sh", ".toml", ".yaml", ".yml"}


def problems(training: Training, entry_point: str, root: Path) -> Iterator[Problem]:
    """Refuse spot capacity, and more than LONG_S, where no script names the checkpoints' folder."""
    is_long = training.max_runtime_s > LONG_S
    if not (training.spot or is_long) or training.own_checkpoints:
        return
    if _names_folder(training, entry_point, root / training.source_dir):
        return
    key, why = "spot", "the job would begin again after each interruption"
    if not training.spot:
        key, why = "max_runtime_s", f"above {LONG_S} s (a day) a job that is stopped loses too much"
    message = f"{why}, and nothing that {entry_point} runs names {FOLDER}, which SageMaker keeps"
    advice = (
        "save there after each epoch and read it at the start (training_code/common/checkpoint.py);"
        " where a package does that, set training.own_checkpoints: true"
    )
    yield Problem(f"training.{key}", message, advice, getattr(training, key))


def _names_folder(training: Training, entry_point: str, folder: Path) -> bool:
    given = (*training.hyperparameters.values(), *training.environment.values())
    if any(FOLDER in str(each) for each in given):
        return True
    scripts = [folder / entry_point, *modules_of(folder, entry_point)]
    # of what workloads share, the parser of options names the folder for those that save there
    own = [each for each in scripts if each.is_relative_to(folder)]
    if any(each.parts[-2:] == (PACKAGE, "checkpoint.py") for each in scripts):
        return True
    files = [each for each in packed_files(folder) if each.suffix in _CONFIGURATION]
    return any(map(_is_named_in, own)) or any(FOLDER in _text(each) for each in files)


def _is_named_in(script: Path) -> bool:
    """Return whether the code of a script names the folder, not its comments and docstrings."""
    try:
        nodes = list(ast.walk(tree_of(_text(script))))
    except (SyntaxError, ValueError):
        return False  # who reads the module says so
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [
        str(node.value)
        for node in nodes
        if isinstance(node, ast.Constant) and id(node) not in prose
    ]
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    names += [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    is_joined = any(map(_LAST.search, texts)) and any(map(_FIRST.search, texts))
    return is_joined or any(map(_TEXT.search, texts)) or any(map(_NAME.search, names))


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
