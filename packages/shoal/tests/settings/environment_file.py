"""Environment files for tests: a small valid one, with what a test changes, and releases as they
pin them.
"""

from pathlib import Path
from typing import Any

import yaml

from local_kit.tables import table
from shoal.settings.loading.loader import load
from shoal.settings.loading.release_file import text_of
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.release import Release
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


ARTIFACTS = "shoal-mnist-dev-artifacts-111122223333-us-east-1"
CONTENT: dict[str, Any] = table(__file__, "sections.yaml")["release"]
RELEASE = Release(**CONTENT)


def trained_by(name: str, region: str) -> dict[str, Any]:
    """Return the content of a release that the environment of that name trained itself."""
    ours, dev = (f"shoal-mnist-{name}", region), ("shoal-mnist-dev", "us-east-1")
    changed = {key: CONTENT[key] for key in ("model_package_arn", "model_data_url")}
    for before, after in zip(dev, ours, strict=True):
        changed = {key: text.replace(before, after) for key, text in changed.items()}
    return CONTENT | changed


def numbered(number: int) -> Release:
    arn = f"{CONTENT['model_package_arn'][:-1]}{number}"
    return Release(
        **CONTENT
        | {
            "model_package_arn": arn,
            "model_package_version": number,
            "model_data_url": f"s3://bucket/{number}.tar.gz",
        }
    )
