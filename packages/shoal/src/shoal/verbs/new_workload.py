"""A new workload: the files of packages/shoal/src/shoal/template with its name put in, in a
repository that has none of them yet.

A template is a folder: `common`, then `table`, those of a framework, a task, and for PyTorch both;
or `trainer`, its data, and one of the trainers. What lies in its folder `source` goes into the
workload's folder of the framework, `environment.yaml` with `settings.yaml` behind it to
`environments/`, everything else into the workload's folder.
"""

import os
import re
import tempfile
from pathlib import Path

from shoal.errors import UsageError
from shoal.settings.loading.loader import environment_file
from shoal.settings.loading.workload import FOLDER
from shoal.settings.parsing.errors import shorten
from shoal.top_level import TOP_LEVEL

TEMPLATES = Path(__file__).resolve().parents[1] / "template"
_COMMON, _FROM_COMMON = TOP_LEVEL / FOLDER / "common", ("archive.py", "evaluation.py")
"""Which workloads of every template have: how a model is packed, hashed and measured."""
TASKS = ("regression", "classification")
FRAMEWORKS = {
    "pytorch": ("table", "pytorch"),
    "sklearn": ("table", "classical", "sklearn"),
    "xgboost": ("table", "classical", "xgboost"),
}
"""Framework of a task -> the folders of its template."""
TRAINERS = {
    "hf-trainer": ("trainer", "trainer-text", "hf-trainer"),
    "trl-sft": ("trainer", "trl-sft"),
    "accelerate": ("trainer", "trainer-text", "accelerate"),
    "lightning": ("trainer", "trainer-text", "lightning"),
    "torchtitan": ("trainer", "trainer-text", "torchtitan"),
}
"""Library that trains language models -> the folders of its template."""
_OPTIONS = {
    "accelerate": "    sharding: ddp # or fsdp, zero3\n",
    "trl-sft": "    lora-rank: 0 # or 8: adapters of peft\n",
}
DEFAULT_FRAMEWORK = "pytorch"
_ENVIRONMENT, SETTINGS = "environment.yaml", "settings.yaml"
MAX_NAME_CHARACTERS = 20
"""The environment of that name has buckets, whose names have at most 63 characters."""
_NAME = re.compile("[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NAME_THERE, _FRAMEWORK_THERE, _OPTION_THERE = "my-model", "my-framework", "    my-option: 0\n"
"""What the templates say instead of the workload's name and framework, and a trainer's option."""
_EMPTY_THERE = "my-empty"
"""What they say instead of an empty cell: trees take NaN, a network takes none."""


def write_workload(
    root: Path, name: str, kind: str, framework: str = DEFAULT_FRAMEWORK
) -> tuple[str, str]:
    """Write the workload `name` of a task or trainer, and an environment in which it runs.

    Returns the folder and the environment's file. Raises UsageError; then nothing was written.
    """
    require_name(name)
    folder, environment = f"{FOLDER}/{name}", environment_file(name)
    for path in (folder, environment):
        if os.path.lexists(root / path):
            raise UsageError(f"{path} is there already; give another name, or remove it")
    files = workload_files(name, kind, framework)
    where = "".join(files.pop(each) for each in (_ENVIRONMENT, SETTINGS))
    try:
        (root / FOLDER).mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=root / FOLDER) as staged:
            for path, content in {"environment": where, **files}.items():
                place = Path(staged) / path.replace(folder, "workload", 1)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(content, encoding="utf-8")
            # last, because they are seen: the environment's file, and the whole folder at once
            (root / environment).parent.mkdir(exist_ok=True)
            (Path(staged) / "environment").rename(root / environment)
            (Path(staged) / "workload").rename(root / folder)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from error
    return folder, environment


def require_name(name: str) -> None:
    """Raise UsageError for what is no name for a workload."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise UsageError(
            f"{shorten(name)} is no name for a workload: give lower case letters, digits and single"
            f" hyphens, a letter first, at most {MAX_NAME_CHARACTERS} characters, as in my-model"
        )


def workload_files(name: str, kind: str, framework: str = DEFAULT_FRAMEWORK) -> dict[str, str]:
    """Return the content of the workload's files by their paths in the repository, and of the two
    parts of an environment: where it lies, and (`SETTINGS`) how the workload runs.
    """
    texts = {each: (_COMMON / each).read_text(encoding="utf-8") for each in _FROM_COMMON}
    code = f"{FOLDER}/{name}/{framework}"  # where there is no package `common`
    files = {
        f"{code}/{each}": text.replace("from common.", "from ") for each, text in texts.items()
    }
    layers = TRAINERS.get(kind, (*FRAMEWORKS[framework], kind, f"{framework}-{kind}"))
    for folder in (TEMPLATES / layer for layer in ("common", *layers)):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                path = file.relative_to(folder).as_posix()
                if path not in {_ENVIRONMENT, SETTINGS}:
                    path = f"{FOLDER}/{name}/{path.replace('source/', f'{framework}/')}"
                files[path] = _filled(file, name, kind, framework)
    return files


def _filled(file: Path, name: str, kind: str, framework: str) -> str:
    text = file.read_text(encoding="utf-8").replace(_OPTION_THERE, _OPTIONS.get(kind, ""))
    text = text.replace(_NAME_THERE, name).replace(_FRAMEWORK_THERE, framework)
    return text.replace(_EMPTY_THERE, "" if framework == "pytorch" else "nan")
