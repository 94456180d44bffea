"""Who may assume which role, to whom a request is attributed, and what is written down of it."""

from __future__ import annotations

from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account

ROOT_ARN = "arn:aws:iam::111122223333:root"


def test_dummy_credentials_are_the_accounts_root(account: Account) -> None:
    assert account.client("sts").get_caller_identity()["Arn"] == ROOT_ARN


def test_the_credentials_of_an_assumed_role_are_its_session(account: Account) -> None:
    role = account.role({"AWS": ROOT_ARN})
    name = role.rpartition("/")[2]
    assert (
        account.as_role("sts", role).get_caller_identity()["Arn"]
        == f"arn:aws:sts::111122223333:assumed-role/{name}/tests"
    )


def test_a_role_that_does_not_exist_cannot_be_assumed(account: Account) -> None:
    with pytest.raises(ClientError, match=r"AccessDenied.*the role does not exist"):
        account.as_role("sts", "arn:aws:iam::111122223333:role/nobody")


def test_a_role_whose_trust_policy_names_a_service_cannot_be_assumed_by_a_user(
    account: Account,
) -> None:
    with pytest.raises(ClientError, match="its trust policy does not allow this principal"):
        account.as_role("sts", account.role({"Service": "sagemaker.amazonaws.com"}))


def test_a_session_may_assume_a_role_that_trusts_its_role(account: Account) -> None:
    first = account.role({"AWS": ROOT_ARN})
    second = account.role({"AWS": first})
    session = account.as_role("sts", first).assume_role(RoleArn=second, RoleSessionName="further")
    assert session["AssumedRoleUser"]["Arn"].endswith("/further")


@pytest.mark.parametrize("operation", ["create_role", "put_role_permissions_boundary"])
def test_a_boundary_that_is_not_there_is_refused(account: Account, operation: str) -> None:
    role_name = account.role({"AWS": ROOT_ARN}).rpartition("/")[2]
    requests = (
        {"RoleName": "bounded", "AssumeRolePolicyDocument": "{}"}
        if operation == "create_role"
        else {"RoleName": role_name}
    )
    with pytest.raises(ClientError, match=r"NoSuchEntity.*policy/not-there does not exist"):
        getattr(account.client("iam"), operation)(
            **requests, PermissionsBoundary="arn:aws:iam::111122223333:policy/not-there"
        )


def test_a_request_is_written_down_with_caller_parameters_and_status(account: Account) -> None:
    role = account.role({"AWS": ROOT_ARN})
    with pytest.raises(ClientError):
        account.as_role("s3", role).get_object(Bucket="never-made", Key="digits/7")
    entry = next(
        entry
        for entry in account.requests("GetObject")
        if entry["parameters"].get("Bucket") == "never-made"
    )
    assert entry["caller"].endswith("/tests")
    assert (entry["service"], entry["parameters"]["Key"], entry["status"]) == (
        "s3",
        "digits/7",
        404,
    )


def test_payloads_are_not_written_down(account: Account) -> None:
    account.function("SECRET = 'very secret source'\n")
    assert all(
        "ZipFile" not in str(entry["parameters"]) for entry in account.requests("CreateFunction")
    )


def test_a_service_that_is_not_emulated_is_refused_by_name(account: Account) -> None:
    with pytest.raises(ClientError, match="does not emulate the service redshift"):
        account.client("redshift").describe_clusters()


def test_an_operation_that_is_not_emulated_is_refused_by_name(account: Account) -> None:
    with pytest.raises(ClientError, match="does not emulate lambda PutFunctionConcurrency"):
        account.client("lambda").put_function_concurrency(
            FunctionName="any", ReservedConcurrentExecutions=1
        )


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "reason"),
    [
        (
            "ec2",
            "run_instances",
            {"ImageId": "ami-1", "MinCount": 1, "MaxCount": 1},
            "has no instances",
        ),
        (
            "sns",
            "subscribe",
            {
                "TopicArn": "arn:aws:sns:us-east-1:111122223333:t",
                "Protocol": "https",
                "Endpoint": "x",
            },
            "SQS only, not https",
        ),
        (
            "s3",
            "put_bucket_notification_configuration",
            {
                "Bucket": "b-b-b",
                "NotificationConfiguration": {
                    "QueueConfigurations": [
                        {
                            "QueueArn": "arn:aws:sqs:us-east-1:111122223333:q",
                            "Events": ["s3:ObjectCreated:*"],
                        }
                    ]
                },
            },
            "through EventBridge only",
        ),
    ],
)
def test_a_success_that_nothing_would_stand_behind_is_refused(
    account: Account, service: str, operation: str, parameters: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ClientError, match=reason):
        getattr(account.client(service), operation)(**parameters)


def test_motos_own_control_panel_is_closed(account: Account) -> None:
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{account.endpoint}/moto-api/reset", data=b"")


@pytest.mark.parametrize("body", [b"{not json", b"{}", b'{"Entries": "none"}'])
def test_a_request_that_is_not_what_the_api_takes_is_the_callers_fault(
    account: Account, body: bytes
) -> None:
    headers = {
        **account.signed("POST", "/", "events", body),
        "X-Amz-Target": "AWSEvents.PutEvents",
        "Content-Type": "application/x-amz-json-1.1",
    }
    with pytest.raises(HTTPError, match="400"):
        urlopen(Request(account.endpoint, data=body, headers=headers))
