"""Every statement of every policy says something that IAM understands, by AWS's service
authorization reference.

IAM accepts a policy with an action that does not take its resource or its condition key: it just
never matches, and what it should allow fails on AWS. cfn-lint looks at the names of actions only.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.identity.permissions import read
from tests.identity.reference import mistakes
from tests.identity.templates import Templates

ACCEPTED = {
    "RegisterPendingOnly: no action of the statement is done to arn:aws:sagemaker:us-east-1:{account}:model-package-group/": (  # noqa: E501
        "AWS's pages name the group as a resource of CreateModelPackage, the machine-readable"
        " reference only the package. Naming both allows a version in this group only, whichever of"
        " them SageMaker asks about."
    ),
    "sagemaker:OutputKmsKey is no condition key of": (
        "AWS's own cdk-aws-sagemaker-role-manager still asks for the deprecated name. The condition"
        " holds without it, too."
    ),
    "FileSystemsThroughS3: kms:EncryptionContext:aws:s3:arn is no condition key of kms:DescribeKey": (  # noqa: E501
        "The statement is the one that the FSx user guide gives for encrypted buckets; its"
        " DescribeKey is without effect."
    ),
}
"""What the reference says against a statement, and why it stays nevertheless."""
ROWS = read("statements.yaml")


def mistakes_in(templates: Templates) -> list[str]:
    """Return what AWS's reference says against statements of the templates."""
    return [
        f"{logical_id}.{statement.get('Sid', '')}: {mistake}"
        for logical_id, document in templates.documents()
        for statement in document["Statement"]
        for mistake in mistakes(statement)
    ]


def accepted(line: str) -> str:
    """Return the exception that the line falls under, if any."""
    exceptions = (
        text
        for text in ACCEPTED
        if any(text.format(account=account) in line for account in ("111122223333", "333344445555"))
    )
    return next(exceptions, "")


@pytest.mark.parametrize("environment", ["dev", "prod", "everything"])
def test_every_action_takes_the_resources_and_conditions_of_its_statement(
    templates: dict[str, Templates], environment: str
) -> None:
    assert [line for line in mistakes_in(templates[environment]) if not accepted(line)] == []


def test_no_exception_is_out_of_date(templates: dict[str, Templates]) -> None:
    assert {accepted(line) for line in mistakes_in(templates["everything"])} == ACCEPTED.keys()


@pytest.mark.parametrize("row", ROWS["mistaken"], ids=lambda row: row["says"])
def test_what_iam_would_accept_and_never_match_is_found(row: dict[str, Any]) -> None:
    assert any(row["says"] in mistake for mistake in mistakes(row))


@pytest.mark.parametrize("statement", ROWS["right"], ids=lambda each: each["Action"])
def test_what_the_reference_knows_is_not_complained_about(statement: dict[str, Any]) -> None:
    assert list(mistakes(statement)) == []
