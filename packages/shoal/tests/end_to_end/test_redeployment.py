"""A deployed environment gets settings that take something away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import Checkout
from tests.end_to_end.test_workloads import PRICES

COMPARED = "evaluation: {gates: [{metric: rmse, not_worse_than: approved, direction: lower}]}\n"
SCHEDULED = "schedules: [{name: weekly, expression: rate(7 days), paused: true}]\n"


@pytest.mark.nightly
def test_an_endpoint_a_gate_and_schedules_can_go(checkout: Checkout, tmp_path: Path) -> None:
    """The emulator refuses to delete an export that is in use, as CloudFormation does
    (packages/shoal-local/tests/control/test_cloudformation.py).
    """
    own = checkout.with_environment(tmp_path, "prices", PRICES + COMPARED + SCHEDULED)
    with own.emulator("prices"):
        own.succeed("deploy", "prices", "--local")
        clients = own.local_target.client
        before = clients("lambda").list_functions()["Functions"]
        (tmp_path / "environments" / "prices.yaml").write_text(PRICES + "endpoint: none\n")
        own.succeed("deploy", "prices", "--local")
        after = clients("lambda").list_functions()["Functions"]
        queues = clients("sqs").list_queues().get("QueueUrls", [])
        own.succeed("destroy", "prices", "--local")
    gone = {each["FunctionName"] for each in before} - {each["FunctionName"] for each in after}
    assert {name.removeprefix("shoal-examples-prices-") for name in gone} == {
        *("compare", "smoke-test", "start", "teardown")
    }
    assert queues == []
