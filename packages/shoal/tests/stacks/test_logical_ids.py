"""No resource changes its logical id unnoticed: CloudFormation would replace it, a bucket with
its data included.
"""

from __future__ import annotations

import json

from tests.stacks.logical_ids import FILE, logical_ids


def test_logical_ids_are_those_written_down() -> None:
    assert logical_ids() == json.loads(FILE.read_text())
