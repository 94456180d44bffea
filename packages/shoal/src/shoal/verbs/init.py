"""A team's repository as this version of Shoal renders it: made, checked, as a whole or not at all.

The CDK app, the stacks, the pipeline and their tests are Shoal's own top level, copied. The
workload and its settings are those of `shoal new`. What a team needs otherwise than Shoal is in
packages/shoal/src/shoal/template/team, which copier fills in; what `shoal init` asks is kept in
a file, which `shoal upgrade` reads. `python -m shoal.verbs.init [FOLDER]` locks again what the
repository installs, as `make lock` there.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from shoal.errors import AnswerError, ShoalError, ToolMissingError, UsageError
from shoal.pipelines.checks.check import check
from shoal.processes import output_of
from shoal.settings.loading.loader import load_workloads
from shoal.settings.loading.pydantic_errors import typed
from shoal.settings.loading.schema import schema_texts
from shoal.settings.parsing.base import AccountId, Settings, Slug
from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.parsing.yaml_file import parse_file
from shoal.settings.regions import az_id_prefixes, problems_of_region
from shoal.top_level import TOP_LEVEL
from shoal.verbs.new_workload import (
    SETTINGS,
    TASKS,
    TEMPLATES,
    TRAINERS,
    require_name,
    workload_files,
)

SOURCE, LOCK = "requirements.in", "requirements.txt"
_WHEELS = re.compile(r"^--find-links .*\n", re.MULTILINE)
_TESTED = ("requirements.txt", "requirements-local.txt")
_PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
_TIMEOUT_S = 600.0
WHEELS = "wheels"
"""The folder of a team's repository."""
_NAMES = ("shoal", "shoal_local")


def lock(folder: Path) -> None:
    """Write requirements.txt for Python 3.11 and later, with the hash of every file.

    The versions are those that Shoal was tested with, or else the ones before, where that fits.
    uv asks the indexes that pip is configured to use, and the place of Shoal's wheels that
    requirements.in names. Raises AnswerError where they do not have everything.
    """
    try:  # how packages are installed, which needs the standard library alone
        from shoal_local.runtimes.packages import uv_environment
    except ImportError as error:
        raise ToolMissingError(
            "shoal-local is missing, which has uv: install it with pip"
        ) from error
    options = "--quiet --universal --python-version 3.11 --index-strategy unsafe-best-match"
    plain = "--generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links"
    made = folder / ".shoal" / LOCK
    made.parent.mkdir(exist_ok=True)
    known: dict[str, str] = {}
    for file in (*(TOP_LEVEL / name for name in _TESTED), folder / LOCK):
        if file.is_file():
            pins = _PIN.findall(file.read_text(encoding="utf-8"))
            known = {name.lower(): version for name, version in pins} | known
    # uv prefers what its output file has
    made.write_text("".join(f"{name}=={version}\n" for name, version in known.items()))
    uv = (str(Path(sys.executable).with_name("uv")), "pip", "compile")
    command = (*uv, *options.split(), *plain.split(), SOURCE, "--output-file", str(made))
    output_of(command, folder, uv_environment(sys.executable), _TIMEOUT_S)
    wheels = "".join(_WHEELS.findall((folder / SOURCE).read_text(encoding="utf-8")))
    head = f"# Locked from {SOURCE} by `make lock`. Do not edit.\n{wheels}"
    (folder / LOCK).write_text(head + made.read_text(encoding="utf-8"), encoding="utf-8")
    made.unlink()


def folder_of(place: str, root: Path) -> Path | None:
    """Return the folder that wheels come from, or None for a page or an index.

    A relative place is in the repository at `root`. Raises UsageError where there is none.
    """
    if not place or "://" in place:
        return None
    if not (folder := root / place).is_dir():
        raise UsageError(f"--wheels {folder}: there is no such folder; give one, or a page's URL")
    return folder


def take_wheels(source: Path, root: Path, version: str) -> None:
    """Copy the wheels of a version into the repository at `root`; remove those of other versions.

    Raises UsageError where `source` lacks one; then nothing was changed.
    """
    target, files = root / WHEELS, [f"{name}-{version}-py3-none-any.whl" for name in _NAMES]
    if missing := [name for name in files if not (source / name).is_file()]:
        advice = "name the folder that has them with --wheels"
        raise UsageError(f"{source} has no {' and no '.join(missing)}; {advice}")
    target.mkdir(parents=True, exist_ok=True)
    for name in files:
        if (source / name).resolve() != (target / name).resolve():
            shutil.copyfile(source / name, target / name)
    for name in _NAMES:
        for file in target.glob(f"{name}-*.whl"):
            if file.name not in files:
                file.unlink()


FILE = ".shoal-answers.yaml"
KINDS = (*TASKS, *TRAINERS)
CI = ("github", "gitlab", "none")


class Place(Settings):
    """Where an environment lies."""

    account: AccountId
    """AWS account id."""
    region: str
    """AWS region, as in eu-west-1."""


class Answers(Settings):
    """All that a repository's rendering depends on, besides the version of Shoal."""

    shoal: str = version("shoal")
    """Version of Shoal that rendered the repository."""
    project: Slug
    """What the environments share is called by it."""
    workload: Slug
    """The model's folder in training_code/."""
    kind: str
    """What `shoal new` writes for it: a task of a table, or a trainer of language models."""
    ci: Literal["github", "gitlab", "none"] = "none"
    """Who tests each change."""
    wheels: str = ""
    """Folder or page with the wheels of Shoal; empty: a package index has them."""
    environments: dict[Slug, Place] = Field(min_length=1)
    """The environments, each promoted from the one before; `dev` comes first."""


def answers_of(data: dict[str, Any], source: str = "shoal init") -> Answers:
    """Return `data` as answers. Raises ConfigError, which names `source`."""
    answers, problems = typed(Answers, data)
    if answers is None:
        raise ConfigError(source, problems)
    require_name(answers.workload)
    if answers.kind not in KINDS:
        message = f"must be one of: {', '.join(KINDS)}"
        problems.append(Problem("kind", message, "choose what is nearest", answers.kind))
    problems += problems_of_wheels(answers.wheels)
    for name, place in answers.environments.items():
        problems += problems_of_region(f"environments.{name}.region", place.region)
    if problems:
        raise ConfigError(source, problems)
    return answers


def problems_of_wheels(place: str) -> Iterator[Problem]:
    """Yield what is wrong with the place of Shoal's wheels, which requirements.in will name."""
    if re.search(r"\s|^\w+://[^/]*@", place):
        message = "has white space, or a password, which would be committed"
        yield Problem("wheels", message, "use another place; keep passwords in ~/.netrc")


def read_answers(root: Path) -> Answers:
    """Return the answers of the repository at `root`, with the version of Shoal that rendered it.

    Raises UsageError where there are none, ConfigError where they are no answers.
    """
    if not (root / FILE).is_file():
        raise UsageError(f"{root / FILE} is missing: `shoal init` did not make this repository")
    document = parse_file(root / FILE, FILE).document
    if document.problems or not isinstance(document.data, dict):
        problem = Problem("", "is no mapping of answers", "take it from git")
        raise ConfigError(FILE, document.problems or [problem])
    return answers_of(document.data, FILE)


def text_of(answers: Answers) -> str:
    """Return the content of the answers' file."""
    head = "# What `shoal init` was told; `shoal upgrade` reads it.\n"
    return head + yaml.safe_dump(answers.model_dump(mode="json"), sort_keys=False)


COPIED = ("app.py", "cdk.json", "pipelines", "stacks", "tests")
"""What Shoal's own top level and a team's repository have alike."""
_ALLOWED = {".git", ".venv"}
"""What may be in the folder before."""
_IGNORED = shutil.ignore_patterns("__pycache__", "snapshots")


def render(given: Answers, folder: Path) -> None:
    """Write the repository that the answers describe into `folder`, which is made if needed.

    The same version and answers give the same bytes; nothing else is read. What is in `folder` and
    not rendered stays. Locks and snapshots are not rendered: programs write them.

    Raises ToolMissingError without copier.
    """
    try:
        from copier import run_copy
    except ImportError as error:
        message = "copier is not installed, which fills in the files; run `pip install shoal[init]`"
        raise ToolMissingError(message) from error
    given = given.model_copy(update={"shoal": version("shoal")})
    for name in COPIED:
        if (TOP_LEVEL / name).is_dir():
            shutil.copytree(TOP_LEVEL / name, folder / name, ignore=_IGNORED, dirs_exist_ok=True)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP_LEVEL / name, folder / name)
    files = workload_files(given.workload, given.kind)
    data = given.model_dump(mode="json") | {
        "settings": files.pop(SETTINGS),
        "places": [
            {"name": name, "zones": az_id_prefixes()[place.region], **place.model_dump()}
            for name, place in given.environments.items()
        ],
    }
    del files["environment.yaml"]
    run_copy(str(TEMPLATES / "team"), folder, data=data, defaults=True, overwrite=True, quiet=True)
    files |= schema_texts() | {FILE: text_of(given)}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def init(answers: Answers, folder: Path) -> AnswerError | None:
    """Write the repository that the answers describe into `folder`, which is new or empty.

    Wheels that come from a folder are copied: the repository installs on any machine. Returns why
    requirements.txt could not be locked, or None where it could; the rest is there.

    Raises UsageError, ToolMissingError and ConfigError; then nothing was written.
    """
    require_empty(folder)
    source = folder_of(answers.wheels, Path())
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".shoal-init-", dir=folder.parent) as staged:
            made, problem = Path(staged, folder.name), None
            if source:
                take_wheels(source, made, version("shoal"))
                answers = answers.model_copy(update={"wheels": WHEELS})
            render(answers, made)
            for name in answers.environments:
                for workload in load_workloads(name, made):
                    check(workload, made)
            try:
                lock(made)
            except AnswerError as error:
                problem = error
            folder.mkdir(exist_ok=True)  # it may be the working directory: it stays the same one
            for each in sorted(made.iterdir()):
                shutil.move(each, folder / each.name)  # it may be on another file system
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from error
    return problem


def require_empty(folder: Path) -> None:
    """Raise UsageError for a folder that is none, or that has files."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give a new one")
    files = {each.name for each in folder.iterdir()} - _ALLOWED if folder.is_dir() else set()
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise UsageError(f"{folder} is not empty ({min(files)}{more}); give a new folder")


if __name__ == "__main__":
    try:
        lock(Path(*sys.argv[1:2]).resolve())
    except ShoalError as error:
        sys.exit(f"shoal: {error}")
