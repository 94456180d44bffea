"""What the tests of a team's repository share: its root, its workloads, its templates."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from shoal.constructs.app import ShoalApp, feature_flags  # first: it chooses the CDK's Node.js
from stacks.delivery import DeliveryStack
from stacks.platform import EnvironmentStage

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOTS = ROOT / "tests" / "snapshots"
WRITE = "SNAPSHOTS=write .venv/bin/python -m pytest tests/test_synth.py"


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return each stack's template by its name, synthesised as `cdk synth` does, with all gates.

    cdk-nag, the CDK's own validator and Shoal's rules fail it by raising RuntimeError.
    """
    folder = tmp_path_factory.mktemp("cdk.out")
    app = ShoalApp(
        stage=EnvironmentStage,
        delivery=DeliveryStack,
        outdir=str(folder),
        context=feature_flags(ROOT),
    )
    app.add_checkout(ROOT)
    app.synth()
    files = sorted(folder.rglob("*.template.json"))
    return {file.name.partition(".")[0]: json.loads(file.read_text()) for file in files}


def require_snapshot(name: str, value: object) -> None:
    """Fail if `value` differs from tests/snapshots/NAME.json; SNAPSHOTS=write writes it instead."""
    file = SNAPSHOTS / f"{name}.json"
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    if os.environ.get("SNAPSHOTS") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), f"{file} is missing: {WRITE} writes it"
    if file.read_text(encoding="utf-8") != text:
        pytest.fail(
            f"{file.relative_to(ROOT)} differs from what the repository makes now. Look at the"
            f" difference: {WRITE}, then git diff tests/snapshots"
        )
