"""Environment files for tests: a small valid one, with what a test changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from shoal.settings.loading.loader import load
from shoal.settings.loading.release_file import text_of
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from tests.repository import CHECKOUT, add_workload, copy_folder

VALID: dict[str, Any] = {
    "name": "test",
    "workload": "mnist",
    "account": "111122223333",
    "region": "us-east-1",
}


def copy_workloads(root: Path) -> None:
    """Give the repository at `root` the shipped workloads, a new one called prices, and a folder
    for environments.
    """
    copy_folder(CHECKOUT / "training_code", root / "training_code")
    add_workload(root)
    (root / "environments").mkdir()


def write(folder: Path, text: str, name: str = "test") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def write_settings(folder: Path, settings: dict[str, Any], name: str = "test") -> Path:
    """Write an environment's file and, where it has a release, the file of its pins; return the
    first.
    """
    own = {key: value for key, value in settings.items() if key != "release"}
    if "release" in settings:
        (folder / f"{name}.release.yaml").write_text(
            text_of({settings["workload"]: settings["release"]}), encoding="utf-8"
        )
    return write(folder, yaml.safe_dump(own, sort_keys=False), name)


def loaded(folder: Path, **sections: Any) -> Environment:
    """Return the environment of the valid file with these sections."""
    return load(write(folder, yaml.safe_dump(VALID | sections)))


def lines_of(folder: Path, text: str) -> list[str]:
    """Return what a user reads when the file `test.yaml` has this text."""
    return _lines_about(write(folder, text))


def _lines_about(file: Path) -> list[str]:
    try:
        load(file, shown_as="environments/test.yaml")
    except ConfigError as error:
        return str(error).splitlines()
    return []


def lines_with(folder: Path, changes: dict[str, Any]) -> list[str]:
    """Return what a user reads when the valid file has `changes`."""
    return _lines_about(write_settings(folder, VALID | changes))
