"""A training section with the scripts of the shipped workload that has one for every strategy."""

from __future__ import annotations

from typing import Any

from shoal.settings.loading.workload import load_workload
from shoal.settings.settings import Framework, Training
from tests.repository import ROOT


def shipped(**keys: Any) -> Training:
    """Return a training section with `keys`, and with its scripts unless they name a folder."""
    if "source_dir" in keys:
        return Training(**keys)
    framework = keys.get("framework", Framework.PYTORCH)
    oldest = load_workload("mnist", ROOT).frameworks[framework].min_python
    return Training(source_dir=f"training_code/mnist/{framework}", min_python=oldest, **keys)
