"""What the tests of a team's repository call: its templates, and what somebody reviewed of them."""

import json
import os
import warnings
from pathlib import Path
from typing import Any

from shoal.constructs.app import Delivery, ShoalApp, Stage, feature_flags

_WRITE = "SNAPSHOTS=write .venv/bin/python -m pytest tests/test_synth.py"


def templates_of(
    root: Path, outdir: Path, *, stage: Stage, delivery: Delivery
) -> dict[str, dict[str, Any]]:
    """Return each stack's template by its name, synthesised as `cdk synth` does, with all gates.

    Raises RuntimeError for a finding of cdk-nag, the CDK's own validator or Shoal's rules.
    """
    context = feature_flags(root)
    app = ShoalApp(stage=stage, delivery=delivery, outdir=str(outdir), context=context)
    app.add_checkout(root)
    app.synth()
    files = sorted(outdir.rglob("*.template.json"))
    return {file.name.partition(".")[0]: json.loads(file.read_text()) for file in files}


def require_snapshot(file: Path, value: object) -> None:
    """Fail if `value` differs from what `file` has as JSON; SNAPSHOTS=write writes it instead.

    One that is missing is written too, but not in CI, where nobody would review it.
    """
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    is_new = not file.is_file() and "CI" not in os.environ
    if is_new:
        warnings.warn(f"wrote {file}: look at it, and commit it", stacklevel=2)
    if is_new or os.environ.get("SNAPSHOTS") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), f"{file} is missing: {_WRITE} writes it"  # noqa: S101 - a test's
    assert file.read_text(encoding="utf-8") == text, (  # noqa: S101
        f"{file} differs from what the repository makes now. Look at the difference: {_WRITE},"
        " then git diff tests/snapshots"
    )
