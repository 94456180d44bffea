"""Every statement of every policy says something that IAM understands, by AWS's service
authorization reference.

IAM accepts a policy with an action that does not take its resource or its condition key: it just
never matches, and what it should allow fails on AWS. cfn-lint looks at the names of actions only.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.identity.reference import mistakes
from tests.identity.templates import Templates

ACCEPTED = {
    "RegisterPendingOnly: no action of the statement is done to arn:aws:sagemaker:us-east-1:{account}:model-package-group/": (  # noqa: E501
        "AWS's pages name the group as a resource of CreateModelPackage, the machine-readable"
        " reference only the package. Naming both allows a version in this group only, whichever of"
        " them SageMaker asks about."
    ),
    "FileSystemsThroughS3: kms:EncryptionContext:aws:s3:arn is no condition key of kms:DescribeKey": (  # noqa: E501
        "The statement is the one that the FSx user guide gives for encrypted buckets; its"
        " DescribeKey is without effect."
    ),
}
"""What the reference says against a statement, and why it stays nevertheless."""


def _mistakes(templates: Templates) -> list[str]:
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
    assert [line for line in _mistakes(templates[environment]) if not accepted(line)] == []


def test_no_exception_is_out_of_date(templates: dict[str, Templates]) -> None:
    assert {accepted(line) for line in _mistakes(templates["everything"])} == ACCEPTED.keys()


def test_there_are_many_statements(templates: dict[str, Templates]) -> None:
    count = sum(
        len(document["Statement"])
        for each in templates.values()
        for _, document in each.documents()
    )
    assert count > 250


ARN = "arn:aws:{}:us-east-1:111122223333:{}".format
TRAIN = "sagemaker:CreateTrainingJob"
ROLE = "arn:aws:iam::111122223333:role/r"
JOB = ARN("sagemaker", "training-job/pipelines-*")
INTERFACE = ARN("ec2", "network-interface/*")
VPC = {"ArnEquals": {"ec2:Vpc": ARN("ec2", "vpc/vpc-1")}}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ({"Action": "sagemaker:CreateTrainingJobs", "Resource": JOB}, "does not exist"),
        ({"Action": "sagemaker:createTrainingJob", "Resource": JOB}, "does not exist"),
        (
            {"Action": "sagemaker:CreateTrainingJob", "Resource": ARN("sagemaker", "endpoint/e")},
            "takes no resource such as",
        ),
        (
            {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket"},
            "takes no resource such as",
        ),
        (
            {"Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket/*"},
            "takes no resource such as",
        ),
        (
            {"Action": "sagemaker:ListEndpoints", "Resource": ARN("sagemaker", "endpoint/*")},
            "takes no resource but *",
        ),
        (
            {"Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::bucket/*", JOB]},
            "no action of the statement is done to",
        ),
        (
            {"Action": "sagemaker:CreateEndpoint", "Resource": ARN("sagemaker", "endpoint/e")},
            "of the kind endpoint-config too",
        ),
        (
            {
                "Action": "sagemaker:CreateModel",
                "Resource": "*",
                "Condition": {"ArnEquals": {"sagemaker:OutputKmsKeyArn": "k"}},
            },
            "sagemaker:OutputKmsKeyArn is no condition key of sagemaker:CreateModel",
        ),
        (
            {
                "Action": TRAIN,
                "Resource": JOB,
                "Condition": {"ArnEquals": {"sagemaker:OutputKmsKey": "k"}},
            },
            "sagemaker:OutputKmsKey is no condition key of sagemaker:CreateTrainingJob",
        ),
        (
            {
                "Action": "ec2:CreateNetworkInterface",
                "Resource": [INTERFACE, ARN("ec2", "subnet/s")],
                "Condition": VPC,
            },
            "ec2:Vpc is no condition key of ec2:CreateNetworkInterface on network-interface",
        ),
        (
            {
                "Action": TRAIN,
                "Resource": JOB,
                "Condition": {"StringEquals": {"sagemaker:InstanceTypes": "ml.x"}},
            },
            "ForAllValues and ForAnyValue are for keys with several values",
        ),
        (
            {
                "Action": "sagemaker:CreateTrainingJob",
                "Resource": JOB,
                "Condition": {"StringEquals": {"sagemaker:MaxRuntimeInSeconds": "1"}},
            },
            "does not compare sagemaker:MaxRuntimeInSeconds, which is of the type Numeric",
        ),
    ],
)
def test_what_iam_would_accept_and_never_match_is_found(
    statement: dict[str, Any], expected: str
) -> None:
    assert any(expected in mistake for mistake in mistakes(statement))


@pytest.mark.parametrize(
    "statement",
    [
        {"Action": "ec2:DeleteNetworkInterface", "Resource": INTERFACE, "Condition": VPC},
        {
            "Action": "s3:*",
            "Resource": "arn:aws:s3:::bucket",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
        {
            "Action": "logs:PutLogEvents",
            "Resource": ARN("logs", "log-group:/aws/sagemaker/TrainingJobs*"),
        },
        {
            "Action": "iam:PassRole",
            "Resource": "arn:aws:iam::111122223333:role/r",
            "Condition": {"StringEquals": {"iam:PassedToService": "s"}},
        },
    ],
)
def test_what_the_reference_knows_is_not_complained_about(statement: dict[str, Any]) -> None:
    assert list(mistakes(statement)) == []
