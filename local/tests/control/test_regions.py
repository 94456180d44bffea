"""Requests that are signed for another region than the emulator's."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.tests.control.account import Account


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("sagemaker", "list_models"),
        ("cloudformation", "describe_stacks"),
        ("lambda", "list_functions"),
        ("scheduler", "list_schedules"),
        ("fsx", "describe_file_systems"),
    ],
)
def test_a_request_for_another_region_does_not_see_this_one(
    account: Account, service: Any, operation: str
) -> None:
    variables = account.environment()
    session: Any = boto3.Session(
        variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"], region_name="eu-west-1"
    )
    client = session.client(service, endpoint_url=account.endpoint)
    with pytest.raises(ClientError, match="in us-east-1 only, and the request is signed for eu-w"):
        getattr(client, operation)()
