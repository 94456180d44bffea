"""Training sections as tests write them, alone or with the scripts of the shipped workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.launch import Launch, resolve
from shoal.settings.frameworks import Framework
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.settings import Training
from tests.repository import ROOT


def shipped(**keys: Any) -> Training:
    """Return a training section with `keys`, and with its scripts unless they name a folder."""
    if "source_dir" in keys:
        return Training(**keys)
    framework = Framework(keys.get("framework", Framework.PYTORCH))
    oldest = load_workload("mnist", ROOT).frameworks[framework].min_python
    return Training(source_dir=f"training_code/mnist/{framework}", min_python=oldest, **keys)


def launch(code: str = "any_code", root: Path | None = None, **keys: Any) -> Launch:
    """Return the launch of a training section with `keys`, and with `region` if it is among them.

    Its scripts are those of the workload for `shipped_code`; for `any_code` they lie in `root`, or
    nowhere.
    """
    region = keys.pop("region", "us-east-1")
    if code == "shipped_code":
        return resolve(shipped(**keys), region, root=ROOT)
    return resolve(Training(**keys), region, root=root)


def refusals(code: str = "any_code", root: Path | None = None, **keys: Any) -> list[str]:
    """Return the lines by which such a section is refused; none if it can run."""
    try:
        launch(code, root, **keys)
    except LaunchError as error:
        return str(error).splitlines()
    return []
