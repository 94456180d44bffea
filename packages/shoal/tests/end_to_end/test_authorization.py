"""The demo with the policies of every role applied: nothing is denied, and of no call it is unknown
what IAM would be asked.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.end_to_end.conftest import Checkout, Finished

ROOT_USER = "arn:aws:iam::111122223333:root"


@pytest.fixture(scope="module")
def calls(demo: Finished, checkout: Checkout) -> list[dict[str, Any]]:
    """Every call that a role made, of the CDK's roles too."""
    log = checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl"
    lines = map(json.loads, log.read_text().splitlines())
    return [line for line in lines if line["caller"] != ROOT_USER]


def test_the_demo_runs_in_an_emulator_that_enforces_policies(demo: Finished) -> None:
    assert "and enforces the roles' policies" in demo.output


def test_no_role_makes_a_call_of_which_nobody_knows_the_permission(
    calls: list[dict[str, Any]],
) -> None:
    assert len(calls) > 200
    assert [
        f"{call['service']}:{call['operation']}" for call in calls if call.get("unmapped")
    ] == []


def test_no_call_of_a_role_is_denied(calls: list[dict[str, Any]]) -> None:
    denied = [
        call
        for call in calls
        if call.get("error") in {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
    ]
    assert denied == []


@pytest.mark.parametrize(
    ("role", "action"),
    [
        ("training", "ec2:CreateNetworkInterface"),
        ("training", "ecr:BatchGetImage"),
        ("training", "cloudwatch:PutMetricData"),
        ("evaluation", "kms:Encrypt"),
        ("endpoint", "logs:PutLogEvents"),
    ],
)
def test_what_sagemaker_does_in_a_roles_name_is_asked_too(
    calls: list[dict[str, Any]], role: str, action: str
) -> None:
    by_role = [call for call in calls if f"-{role}/" in call["caller"]]
    asked = {
        question["action"]
        for call in by_role
        for question in call["questions"]
        if question.get("implied")
    }
    assert action in asked
