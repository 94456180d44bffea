"""`questions(call)`: what AWS asks IAM about a call of its API.

For a call without a rule it raises UnmappedError: nobody may guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shoal_local.control.authorization.iam_request import Question
from shoal_local.control.authorization.rule_input import Asked, Known, NothingKnown, Rule
from shoal_local.control.authorization.services import (
    ec2,
    functions,
    identity,
    kms,
    messages,
    operations,
    provisioning,
    s3,
    sagemaker,
)
from shoal_local.control.protocol import ApiCall

RULES: Mapping[str, Mapping[str, Rule]] = {
    "application-autoscaling": provisioning.AUTOSCALING,
    "budgets": provisioning.BUDGETS,
    "cloudformation": operations.CLOUDFORMATION,
    "cloudwatch": operations.CLOUDWATCH,
    "codebuild": provisioning.CODEBUILD,
    "ec2": ec2.RULES,
    "ecr": operations.ECR,
    "events": messages.EVENTS,
    "fsx": provisioning.FSX,
    "iam": identity.IAM,
    "kms": kms.RULES,
    "lambda": functions.RULES,
    "logs": operations.LOGS,
    "s3": s3.RULES,
    "sagemaker": sagemaker.RULES,
    "scheduler": messages.SCHEDULER,
    "service-quotas": provisioning.SERVICE_QUOTAS,
    "sns": messages.SNS,
    "sqs": messages.SQS,
    "ssm": operations.SSM,
    "sts": identity.STS,
}


class UnmappedError(Exception):
    """The emulator does not know what IAM is asked about an operation; `str()` says which."""

    def __init__(self, call: ApiCall) -> None:
        super().__init__(
            "Shoal's emulator does not know which IAM action the operation"
            f" {call.service}:{call.operation or '?'} needs"
        )


def questions(call: ApiCall, known: Known | None = None) -> list[Question]:
    """The questions in the order in which AWS reports them, the call's own first.

    `known`: what the account knows of its resources.
    """
    rule = RULES.get(call.service, {}).get(call.operation)
    if rule is None:
        raise UnmappedError(call)
    always = {
        "aws:SecureTransport": "true",
        "aws:RequestedRegion": call.region,
    }  # loopback's plain HTTP stands for TLS
    asked = rule(Asked(call, known or NothingKnown()))
    return [replace(question, context={**always, **question.context}) for question in asked]
