"""The counts of docs/performance.md are those that tests hold the program to."""

from __future__ import annotations

import pytest

from tests.docs.pages import ROOT
from tests.end_to_end import test_counts as execution
from tests.pipelines import test_counts as definition
from tests.stacks import test_counts as synth


def _listed(values: dict[str, int]) -> str:
    return ", ".join(f"{value}" for value in values.values())


COUNTS = {
    "calls of Python functions to build": f"{definition.CALLS_OF_A_DEFINITION:,}",
    "checking a definition of 50 steps": f"at most {definition.MAX_GROWTH}",
    "calls of Python functions in a synth": f"{synth.COUNTS['python_calls']:,}",
    "messages to the CDK's Node.js": f"{synth.COUNTS['jsii_messages']}",
    "requests of one execution by role": _listed(execution.COUNTS),
    "objects that training fetches": f"{execution.OBJECTS}",
    "bytes by role": ", ".join(f"{size / 1e6:.1f} MB" for size in execution.BYTES.values()),
    "containers per execution": f"{execution.FUNCTIONS} or {execution.FUNCTIONS + 1}",
    "requests for logs per look": f"at most {execution.REQUESTS_PER_LOOK}",
}
"""How a row begins -> what its count ends with."""


@pytest.mark.parametrize("what", COUNTS)
def test_a_count_of_the_page_is_that_of_its_test(what: str) -> None:
    lines = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").splitlines()
    (row,) = (line for line in lines if line.startswith(f"| {what}"))
    count = row.split(" | ")[1]
    assert f" {count}".endswith(f" {COUNTS[what]}")
