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
    arn = f"arn:aws:sts::111122223333:assumed-role/{role.rpartition('/')[2]}/tests"
    assert account.as_role("sts", role).get_caller_identity()["Arn"] == arn


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


@pytest.mark.parametrize(
    ("operation", "more"),
    [
        ("create_role", {"AssumeRolePolicyDocument": "{}"}),
        ("put_role_permissions_boundary", {}),
    ],
)
def test_a_boundary_that_is_not_there_is_refused(
    account: Account, operation: str, more: dict[str, str]
) -> None:
    role_name = account.role({"AWS": ROOT_ARN}).rpartition("/")[2]
    boundary = {"PermissionsBoundary": "arn:aws:iam::111122223333:policy/not-there"}
    with pytest.raises(ClientError, match=r"NoSuchEntity.*policy/not-there does not exist"):
        getattr(account.client("iam"), operation)(RoleName=role_name, **boundary, **more)


def test_a_request_is_written_down_with_caller_parameters_and_status(account: Account) -> None:
    role = account.role({"AWS": ROOT_ARN})
    with pytest.raises(ClientError):
        account.as_role("s3", role).get_object(Bucket="never-made", Key="digits/7")
    requests = account.requests("GetObject")
    entry = next(each for each in requests if each["parameters"].get("Bucket") == "never-made")
    assert entry["caller"].endswith("/tests")
    known = (entry["service"], entry["parameters"]["Key"], entry["status"])
    assert known == ("s3", "digits/7", 404)


def test_payloads_are_not_written_down(account: Account) -> None:
    account.function("SECRET = 'very secret source'\n")
    written = [str(entry["parameters"]) for entry in account.requests("CreateFunction")]
    assert written
    assert not any("ZipFile" in each for each in written)


SNS = "arn:aws:sns:us-east-1:111122223333"
QUEUE_EVENTS = {
    "QueueArn": "arn:aws:sqs:us-east-1:111122223333:q",
    "Events": ["s3:ObjectCreated:*"],
}


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "reason"),
    [
        ("redshift", "describe_clusters", {}, "does not emulate the service redshift"),
        (
            *("lambda", "put_function_concurrency"),
            {"FunctionName": "any", "ReservedConcurrentExecutions": 1},
            "does not emulate lambda PutFunctionConcurrency",
        ),
        (
            *("ec2", "run_instances", {"ImageId": "ami-1", "MinCount": 1, "MaxCount": 1}),
            "has no instances",
        ),
        (
            *("sns", "subscribe"),
            {"TopicArn": f"{SNS}:t", "Protocol": "https", "Endpoint": "x"},
            "SQS only, not https",
        ),
        (
            *("s3", "put_bucket_notification_configuration"),
            {
                "Bucket": "b-b-b",
                "NotificationConfiguration": {"QueueConfigurations": [QUEUE_EVENTS]},
            },
            "through EventBridge only",
        ),
    ],
)
def test_what_is_not_emulated_is_refused_by_name(
    account: Account, service: str, operation: str, parameters: dict[str, Any], reason: str
) -> None:
    """Moto would answer some of it with a success that nothing stands behind."""
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
