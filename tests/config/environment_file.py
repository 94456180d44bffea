"""Environment files for tests: a small valid one, with what a test changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from config.errors import ConfigError
from config.loader import load
from tests.repository import CHECKOUT

VALID: dict[str, Any] = {
    "name": "test",
    "workload": "mnist",
    "account": "111122223333",
    "region": "us-east-1",
}


def link_workloads(root: Path) -> None:
    """Give the repository at `root` the shipped workloads, and a folder for environments."""
    (root / "training_code").symlink_to(CHECKOUT / "training_code")
    (root / "environments").mkdir()


def write(folder: Path, text: str, name: str = "test") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def lines_of(folder: Path, text: str) -> list[str]:
    """Return what a user reads when the file `test.yaml` has this text."""
    try:
        load(write(folder, text), shown_as="environments/test.yaml")
    except ConfigError as error:
        return str(error).splitlines()
    return []


def lines_with(folder: Path, changes: dict[str, Any]) -> list[str]:
    """Return what a user reads when the valid file has `changes`."""
    return lines_of(folder, yaml.safe_dump(VALID | changes, sort_keys=False))
