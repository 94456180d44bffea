"""A regression goes the same way as the digits, from its dataset to teardown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import Checkout

HOUSES = """
name: houses
project: examples
workload: houses
account: "111122223333"
region: us-east-1
protect: false
network: {training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}
training: {strategy: torchrun, instance_type: ml.m5.xlarge, instance_count: 2}
"""


@pytest.mark.nightly
def test_a_regression_passes_its_gates_and_its_smoke_test(
    checkout: Checkout, tmp_path: Path
) -> None:
    own = checkout.with_environment(tmp_path, "houses", HOUSES)
    finished = own.run("demo", "houses")
    assert finished.exit_code == 0, finished.output
    summary = own.summary()
    assert summary["metrics"]["rmse"] < 62
    assert [answer["request"] for answer in summary["endpoint_answers"]] == [
        "one-person.json",
        "light-and-heavy.json",
        "two-people.csv",
    ]
    assert summary["left_behind"] == []
