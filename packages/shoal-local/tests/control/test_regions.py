"""Several regions in one emulator, and requests that are signed for a region that it has not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account
from shoal_local.testing import emulator

REGIONS = ("us-east-1", "eu-west-1")
HOME, AWAY = REGIONS
OPTIONS = ("--region", HOME, "--region", AWAY)


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("sagemaker", "list_models"),
        ("cloudformation", "describe_stacks"),
        ("lambda", "list_functions"),
        ("scheduler", "list_schedules"),
        ("fsx", "describe_file_systems"),
        ("events", "list_rules"),
        ("cloudwatch", "describe_alarms"),
        ("logs", "describe_log_groups"),
    ],
)
def test_a_request_for_another_region_does_not_see_this_one(
    account: Account, service: Any, operation: str
) -> None:
    client = account.in_region("eu-west-1").client(service)
    with pytest.raises(ClientError, match="in us-east-1 only, and the request is signed for eu-w"):
        getattr(client, operation)()


def things(account: Account) -> tuple[list[Any], ...]:
    """Return the names of stacks and groups, what functions answer, and the regions in ARNs."""
    stacks = account.client("cloudformation").describe_stacks()["Stacks"]
    groups = account.client("sagemaker").list_model_package_groups()
    functions = account.client("lambda").list_functions()["Functions"]
    (queue,) = account.client("sqs").list_queues(QueueNamePrefix="of-")["QueueUrls"]
    request = {"QueueUrl": queue, "AttributeNames": ["QueueArn"]}
    arn = account.client("sqs").get_queue_attributes(**request)["Attributes"]["QueueArn"]
    return (
        [each["StackName"] for each in stacks],
        [each["ModelPackageGroupName"] for each in groups["ModelPackageGroupSummaryList"]],
        [account.invoke(each["FunctionName"])["payload"] for each in functions],
        [each.split(":")[3] for each in (stacks[0]["StackId"], arn)],
    )


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Account]]:
    """One account in two regions: each has a function, a stack and a group that tell it."""
    with emulator(tmp_path_factory.mktemp("regions") / "state", *OPTIONS) as local:
        place = (local.account.endpoint, local.account.state_dir, local.account.number)
        accounts = {region: Account(*place, region) for region in REGIONS}
        for region, account in accounts.items():
            group = {"ModelPackageGroupName": f"of-{region}"}
            account.function(f"def handler(event, context):\n    return '{region}'\n")
            account.stack({"Queue": {"Type": "AWS::SQS::Queue"}}, f"of-{region}")
            account.client("sagemaker").create_model_package_group(**group)
        yield accounts


@pytest.mark.parametrize("region", REGIONS)
def test_each_region_has_its_own_things(accounts: dict[str, Account], region: str) -> None:
    named = [f"of-{region}"]
    assert things(accounts[region]) == (named, named, [region], [region] * 2)


def test_roles_and_their_sessions_are_those_of_every_region(accounts: dict[str, Account]) -> None:
    role = accounts[AWAY].role({"AWS": accounts[AWAY].number})
    request = {"RoleArn": role, "RoleSessionName": "tests"}
    credentials = accounts[HOME].client("sts").assume_role(**request)["Credentials"]
    keys = ("AccessKeyId", "SecretAccessKey", "SessionToken")
    away = accounts[AWAY].client_of("sts", *(credentials[key] for key in keys))
    assert away.get_caller_identity()["Arn"].endswith("/tests")


def test_a_buckets_name_is_taken_everywhere_and_its_events_stay_in_its_region(
    accounts: dict[str, Account],
) -> None:
    for account in accounts.values():
        url, arn = account.open_queue()
        account.client("events").put_rule(Name="s3", EventPattern='{"source": ["aws.s3"]}')
        account.client("events").put_targets(Rule="s3", Targets=[{"Id": "1", "Arn": arn}])
    s3 = accounts[AWAY].client("s3")
    s3.create_bucket(Bucket="away", CreateBucketConfiguration={"LocationConstraint": AWAY})
    s3.put_bucket_notification_configuration(
        Bucket="away", NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    s3.put_object(Bucket="away", Key="one", Body=b"1")
    (event,) = accounts[AWAY].received(url)
    assert (event["region"], event["detail"]["object"]["key"]) == (AWAY, "one")
    with pytest.raises(ClientError, match="BucketAlready"):
        accounts[HOME].client("s3").create_bucket(Bucket="away")


def test_a_third_region_is_refused_with_those_that_there_are(accounts: dict[str, Account]) -> None:
    third = accounts[HOME].in_region("ap-south-1")
    with pytest.raises(ClientError, match=r"in us-east-1, eu-west-1 only, .* for ap-south-1"):
        third.client("sagemaker").list_models()
