"""Whether a stack is deployed, by CloudFormation's word."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.target import Target
from shoal.errors import error_code

_NO_STACK = "ValidationError"
"""CloudFormation's error code for a stack that does not exist."""


def describe_stack(target: Target, name: str) -> dict[str, Any] | None:
    """Return the stack as CloudFormation describes it, or None if it does not exist any more."""
    try:
        (stack,) = target.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if error_code(error) == _NO_STACK:
            return None
        raise
    return None if stack["StackStatus"] == "DELETE_COMPLETE" else dict(stack)


def status_of_stack(target: Target, name: str) -> str | None:
    """Return the stack's StackStatus, or None if it does not exist or has only a change set."""
    stack = describe_stack(target, name)
    return (
        str(stack["StackStatus"])
        if stack and stack["StackStatus"] != "REVIEW_IN_PROGRESS"
        else None
    )
