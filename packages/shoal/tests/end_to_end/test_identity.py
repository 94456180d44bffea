"""What IAM is asked while `shoal demo` runs, answered by a real evaluator from the policies that
were deployed in it.

The evaluator is `@cloud-copilot/iam-simulate`; the questions are those that the emulator wrote into
its request log, those for what AWS does itself with a role included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal_local.control.authorization.evaluator import Evaluator
from tests.end_to_end.conftest import Checkout, Finished
from tests.identity.permissions import Roles, named
from tests.identity.recorded import Recorded, every, recorded
from tests.identity.synth import synthesised
from tests.identity.templates import like
from tests.repository import ROOT

NAMES = Names(load_environment("dev", ROOT))
ACTORS = (
    "pipeline",
    "training",
    "evaluation",
    "endpoint",
    "seal",
    "smoke-test",
    "teardown",
    "empty-on-delete",
    "empty-registry",
)
LATE = "pages"
"""It waits for the end of a run, so a demo may be over before; test_verbs.py runs it under its
policy.
"""
ROOT_USER = "arn:aws:iam::111122223333:root"
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
IMPLIED = {
    ("training", "ec2:CreateNetworkInterface"),
    ("training", "ecr:BatchGetImage"),
    ("training", "cloudwatch:PutMetricData"),
    ("evaluation", "kms:Encrypt"),
    ("endpoint", "logs:PutLogEvents"),
}
"""Role and action of what SageMaker does in a role's name."""
UNUSED = ROOT / "packages" / "shoal" / "tests" / "identity" / "unused.yaml"


def _reasons() -> dict[str, dict[str, str]]:
    """Actor -> Sid -> why the statement stays although no request used it."""
    found: dict[str, dict[str, str]] = yaml.safe_load(UNUSED.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def run(demo: Finished, checkout: Checkout) -> Recorded:
    assert demo.exit_code == 0, demo.output
    log = checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl"
    run = recorded(log, NAMES.role(""))
    run.questions.pop(NAMES.role(LATE), None)
    return run


@pytest.fixture(scope="module")
def roles(run: Recorded) -> Iterator[Roles]:
    with Evaluator() as evaluator:
        yield Roles(evaluator, run.identity, run.resources)


@pytest.fixture(scope="module")
def used(run: Recorded, roles: Roles) -> set[tuple[str, str]]:
    """Role and Sid of every statement that allowed a recorded question."""
    return {
        (role, name.rpartition("/")[2])
        for role, question in every(run)
        for name in roles.decide(role, question).statements
    }


def test_the_deployed_policies_are_the_synthesised_ones(run: Recorded, tmp_path: Path) -> None:
    (templates,) = synthesised({"dev": NAMES.environment}, tmp_path).values()
    expected = templates.identity_policies()
    assert run.identity.keys() == expected.keys()
    assert [
        role for role in expected if not like(expected[role], run.identity[role], templates)
    ] == []


def test_no_role_is_denied_or_makes_an_unknown_call(demo: Finished, checkout: Checkout) -> None:
    """The CDK's roles, too."""
    assert demo.exit_code == 0, demo.output
    log = checkout.root / "demo-out" / "logs" / "emulator-requests.jsonl"
    lines = map(json.loads, log.read_text().splitlines())
    calls = [line for line in lines if line["caller"] != ROOT_USER]
    assert len(calls) > 200
    assert [call["operation"] for call in calls if call.get("unmapped")] == []
    assert [call for call in calls if call.get("error") in DENIED] == []
    implied = {
        (call["caller"].rpartition("/")[0].rpartition("-")[2], question["action"])
        for call in calls
        for question in call.get("questions", ())
        if question.get("implied")
    }
    assert implied >= IMPLIED


def test_every_role_that_acts_is_seen_acting(run: Recorded) -> None:
    assert {*ACTORS} == {role.removeprefix(run.prefix) for role in run.questions}


def test_conditions_are_evaluated_with_keys_that_iam_knows(run: Recorded, roles: Roles) -> None:
    decided = [
        (question.action, roles.decide(role, question).ignored) for role, question in every(run)
    ]
    ours = ("sagemaker:", "ec2:", "kms:", "iam:", "s3:", "cloudwatch:")
    assert [(action, key) for action, keys in decided for key in keys if key.startswith(ours)] == []


@pytest.mark.parametrize("actor", ACTORS)
def test_without_any_one_statement_of_a_role_a_recorded_call_is_denied(
    run: Recorded, roles: Roles, actor: str
) -> None:
    role, excused = NAMES.role(actor), _reasons().get(actor, {})
    needed = [
        sid
        for sid, statement in roles.statements(role)
        if statement["Effect"] == "Allow" and sid not in excused
    ]
    asked = run.questions[role].values()
    assert needed
    assert [
        sid
        for sid in needed
        if all(roles.decide(role, question, missing=sid).allowed for question in asked)
    ] == []


def test_the_statements_that_no_call_used_are_those_with_a_written_reason(
    roles: Roles, run: Recorded, used: set[tuple[str, str]]
) -> None:
    allowing = {
        (role, sid)
        for role, documents in run.identity.items()
        if role != NAMES.role(LATE)
        for document in documents.values()
        for sid, statement in named(document).items()
        if statement["Effect"] == "Allow"
    }
    assert "training" not in _reasons()
    assert {
        (f"{run.prefix}{actor}", sid) for actor, reasons in _reasons().items() for sid in reasons
    } == allowing - used
