"""The cost of a synth, in counts that no busy machine changes.

A limit is the count of its day and a quarter more; raise it with a reason. The last one: a
registry per workload has a function of its own that empties it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.repository import PYTHONPATH

COUNTS = {"python_calls": 506_000, "jsii_messages": 804}
LIMITS = {kind: count * 5 // 4 for kind, count in COUNTS.items()}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.stacks.counts", str(tmp_path_factory.mktemp("counts"))]
    variables = os.environ | {"PYTHONPATH": PYTHONPATH}
    process = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return dict(json.loads(process.stdout))


@pytest.mark.parametrize("kind", LIMITS)
def test_a_synth_of_dev_does_not_do_much_more_than_it_did(
    counted: dict[str, int], kind: str
) -> None:
    assert LIMITS[kind] // 3 < counted[kind] <= LIMITS[kind]
