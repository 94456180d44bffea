"""What `shoal init` asks, and the file in which the repository keeps it for `shoal upgrade`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from shoal.errors import UsageError
from shoal.settings.loading.pydantic_errors import typed
from shoal.settings.parsing.base import AccountId, Settings, Slug
from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.parsing.yaml_file import parse_file
from shoal.settings.regions import problems_of_region
from shoal.verbs.new_workload import TASKS, TRAINERS, require_name

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
