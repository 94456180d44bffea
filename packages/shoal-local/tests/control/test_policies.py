"""What a resource policy allows: principals, wildcards, conditions."""

from __future__ import annotations

from typing import Any

import pytest

from shoal_local.control.identity.policies import Principal, allows, like

QUEUE = "arn:aws:sqs:us-east-1:111122223333:q"
RULE = "arn:aws:events:us-east-1:111122223333:rule/r"
EVENTS = Principal("Service", "events.amazonaws.com")


def policy(**changes: Any) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": EVENTS.name},
        "Action": "sqs:SendMessage",
        "Resource": QUEUE,
    }
    return {"Statement": [{**statement, **changes}]}


def sends(document: dict[str, Any], **context: str) -> bool:
    return allows(document, EVENTS, "sqs:SendMessage", QUEUE, {"aws:SourceArn": RULE, **context})


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({}, True),
        ({"Principal": "*"}, True),
        ({"Principal": {"Service": ["sns.amazonaws.com", EVENTS.name]}}, True),
        ({"Principal": {"Service": "sns.amazonaws.com"}}, False),
        ({"Principal": {"AWS": "111122223333"}}, False),
        ({"Action": "SQS:Send*"}, True),
        ({"Action": "sqs:ReceiveMessage"}, False),
        ({"Resource": f"{QUEUE}-other"}, False),
        ({"Condition": {"ArnEquals": {"aws:SourceArn": RULE}}}, True),
        ({"Condition": {"ArnEquals": {"AWS:SourceArn": f"{RULE}x"}}}, False),
        ({"Condition": {"StringEquals": {"aws:SourceAccount": "111122223333"}}}, False),
        ({"Condition": {"StringEqualsIfExists": {"aws:SourceAccount": "111122223333"}}}, True),
        ({"Condition": {"Null": {"sts:ExternalId": "true"}}}, True),
        ({"Condition": {"Null": {"aws:SourceArn": "true"}}}, False),
        ({"Condition": {"IpAddress": {"aws:SourceArn": "10.0.0.0/8"}}}, False),
    ],
)
def test_a_statement_allows_what_all_its_elements_match(
    changes: dict[str, Any], allowed: bool
) -> None:
    assert sends(policy(**changes)) is allowed


def test_a_denial_wins() -> None:
    document = {
        "Statement": [*policy()["Statement"], *policy(Effect="Deny", Principal="*")["Statement"]]
    }
    assert not sends(document)


def test_a_value_known_only_by_its_beginning_matches_what_agrees_so_far() -> None:
    context = {"aws:SourceArn": "arn:aws:sagemaker:us-east-1:111122223333:*"}
    document = policy(
        Condition={
            "ArnLike": {"aws:SourceArn": "arn:aws:sagemaker:us-east-1:111122223333:pipeline/p"}
        }
    )
    assert allows(document, EVENTS, "sqs:SendMessage", QUEUE, context)


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [("a*c", "abbc", True), ("a?c", "abbc", False), ("a.c", "abc", False)],
)
def test_wildcards_are_stars_and_question_marks_only(
    pattern: str, value: str, matches: bool
) -> None:
    assert like(pattern, value) is matches
