"""Each workload in training_code/ keeps its contract: its scripts exist, compile and are named."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

WORKLOADS = sorted(path.parent for path in (ROOT / "training_code").glob("*/workload.yaml"))


@pytest.mark.parametrize("folder", WORKLOADS, ids=[each.name for each in WORKLOADS])
def test_its_scripts_are_python(folder: Path) -> None:
    scripts = sorted(folder.rglob("*.py"))
    assert scripts, f"{folder} has no scripts"
    for script in scripts:
        ast.parse(script.read_text(encoding="utf-8"), script.name)


@pytest.mark.parametrize("folder", WORKLOADS, ids=[each.name for each in WORKLOADS])
def test_it_describes_no_account(folder: Path) -> None:
    """What is trained does not depend on where: accounts stand in environments/."""
    keys = set(yaml.safe_load((folder / "workload.yaml").read_text(encoding="utf-8")))
    assert not keys & {"account", "region", "network", "delivery"}
