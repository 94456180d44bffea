"""Checks that what a request names exists: roles, subnets, security groups, keys.

SageMaker checks that before it starts anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from shoal_local.context import RoleCredentials
from shoal_local.errors import AwsError
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.shapes import Document

_MAX_SESSION_NAME = 64


def assume(core: Core, role_arn: str, session_name: str) -> RoleCredentials:
    """Return credentials of a role that trusts SageMaker; raise ValidationException as AWS words
    it.
    """
    try:
        return core.context.role_credentials(role_arn, session_name[:_MAX_SESSION_NAME])
    except AwsError as error:
        raise invalid(
            f"Could not assume role {role_arn}. Please ensure that the role exists and allows"
            f" principal 'sagemaker.amazonaws.com' to assume the role. ({error.message})"
        ) from error


def check_network(core: Core, vpc: Document | None) -> None:
    """Raise ValidationException if a subnet or security group of a VpcConfig does not exist.

    Containers get no interface in them: their network has the AWS endpoint only.
    """
    if vpc:
        ec2 = core.context.clients("ec2", None)
        _check_exists(ec2.describe_subnets, SubnetIds=vpc["Subnets"])
        _check_exists(ec2.describe_security_groups, GroupIds=vpc["SecurityGroupIds"])


def check_keys(core: Core, *keys: str | None) -> None:
    """Raise ValidationException if a KMS key (id, ARN or alias) does not exist."""
    for key in filter(None, keys):
        _check_exists(core.context.clients("kms", None).describe_key, KeyId=key)


def _check_exists(describe: Callable[..., Any], **arguments: Any) -> None:
    try:
        describe(**arguments)
    except ClientError as error:
        raise invalid(error.response["Error"]["Message"]) from error
