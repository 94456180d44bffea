"""What holds for every role of every stack: its trust, what it may pass on, what limits it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.identity.reference import as_list
from tests.identity.templates import ACCOUNT, Document, Templates

ENVIRONMENTS = ("dev", "prod", "everything")
HANDED = ("endpoint", "evaluation", "training")
BOUNDED = "arn:aws:iam::111122223333:policy/platform/Boundary"


def _statements(templates: Templates) -> Iterator[tuple[str, Document]]:
    for role, documents in templates.identity_policies().items():
        yield from (
            (role, statement)
            for document in documents.values()
            for statement in document["Statement"]
        )


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_role_trusts_one_service_that_acts_for_this_account(
    templates: dict[str, Templates], environment: str
) -> None:
    account = "333344445555" if environment == "prod" else "111122223333"
    for role, trust in templates[environment].trust_policies().items():
        (statement,) = trust["Statement"]
        accounts = [
            keys["aws:SourceAccount"]
            for operator, keys in statement["Condition"].items()
            if operator.startswith("StringEquals")
        ]
        assert ([*statement["Principal"]], accounts) == (["Service"], [account]), role


def test_only_lambda_is_believed_when_it_does_not_say_for_whom_it_acts(
    templates: dict[str, Templates],
) -> None:
    trusts = [trust["Statement"][0] for trust in templates["everything"].trust_policies().values()]
    lenient = {
        trust["Principal"]["Service"]
        for trust in trusts
        if "StringEqualsIfExists" in trust["Condition"]
    }
    assert lenient == {"lambda.amazonaws.com"}


def test_every_other_service_must_say_for_what_it_acts(templates: dict[str, Templates]) -> None:
    trusts = [trust["Statement"][0] for trust in templates["everything"].trust_policies().values()]
    assert {
        trust["Principal"]["Service"]
        for trust in trusts
        if "aws:SourceArn" not in json.dumps(trust)
    } == {"lambda.amazonaws.com"}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_only_the_pipeline_hands_over_the_roles_of_its_jobs_and_only_to_sagemaker(
    templates: dict[str, Templates], environment: str
) -> None:
    prefix = f"shoal-mnist-{'prod' if environment == 'prod' else 'dev'}-us-east-1-"
    passing = {
        role: (statement["Resource"], statement["Condition"])
        for role, statement in _statements(templates[environment])
        if "iam:PassRole" in as_list(statement["Action"])
    }
    arns = [f"arn:aws:iam::{ACCOUNT}:role/{prefix}{actor}" for actor in HANDED]
    to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    assert passing == {f"{prefix}pipeline": (arns, to_sagemaker)}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_nobody_may_approve_a_model(templates: dict[str, Templates], environment: str) -> None:
    approving = [
        (role, statement["Effect"])
        for role, statement in _statements(templates[environment])
        if "sagemaker:UpdateModelPackage" in as_list(statement["Action"])
    ]
    assert {effect for _, effect in approving} == {"Deny"}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_no_role_has_an_action_with_a_wildcard_or_a_managed_policy(
    templates: dict[str, Templates], environment: str
) -> None:
    of_environment = templates[environment]
    assert not [
        action
        for _, statement in _statements(of_environment)
        for action in as_list(statement["Action"])
        if "*" in action
    ]
    assert not [
        role["RoleName"]
        for _, role in of_environment.resources("AWS::IAM::Role")
        if "ManagedPolicyArns" in role
    ]


def test_every_role_has_the_permissions_boundary_that_the_environment_names(
    templates: dict[str, Templates],
) -> None:
    roles = [role for _, role in templates["everything"].resources("AWS::IAM::Role")]
    assert len(roles) > 8
    assert {role.get("PermissionsBoundary") for role in roles} == {BOUNDED}


def test_without_a_boundary_named_there_is_none(dev: Templates) -> None:
    assert not [
        role for _, role in dev.resources("AWS::IAM::Role") if "PermissionsBoundary" in role
    ]
