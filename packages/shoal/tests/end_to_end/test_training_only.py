"""A workload that only trains, in an image of its own, with channels of its own: as far as the
registry, and gone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import Checkout
from tests.letters import BASE_MODEL, add_letters


@pytest.mark.nightly
def test_what_only_trains_is_registered_and_removed(checkout: Checkout, tmp_path: Path) -> None:
    own = checkout.with_environment(tmp_path, "lab", BASE_MODEL)
    add_letters(own.root)
    finished = own.run("demo", "lab", "--enforce-iam")
    assert finished.exit_code == 0, finished.output
    summary = own.summary()
    run = own.run_json()
    assert [step["name"] for step in run["steps"] if step["status"] == "Succeeded"] == [
        *("Train", "Evaluate", "Gate", "Seal", "Register")
    ]
    assert run["metrics"]["values"]["bits_per_letter"] < 4
    assert run["metrics"]["values"]["pairs"] > 2000  # 1000 of them are in the base model
    assert run["package"]["approval"] == "PendingManualApproval"
    assert "Endpoint" not in {each["kind"] for each in run["made"]}
    assert summary["left_behind"] == []
