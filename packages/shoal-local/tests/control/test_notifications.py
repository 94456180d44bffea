"""What tells somebody: schedules that call their targets with their role when they are due, alarms
on what programs publish.
"""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, allow, eventually, still, unique
from local_kit.tables import rows

REMEMBER = (
    "def handler(event, context):\n    print('due', event['at'], 'attempt', event['attempt'])\n"
)
INPUT = json.dumps(
    {"at": "<aws.scheduler.scheduled-time>", "attempt": "<aws.scheduler.attempt-number>"}
)
EVERY_MINUTE = {"ScheduleExpression": "rate(1 minute)", "FlexibleTimeWindow": {"Mode": "OFF"}}


def function_arn(name: str) -> str:
    return f"arn:aws:lambda:us-east-1:111122223333:function:{name}"


def schedule(account: Account, target_arn: str, **changes: Any) -> str:
    """Create a schedule of a minute, which is a second here, and return its name."""
    name, may = unique("schedule"), allow(["lambda:InvokeFunction", "sqs:SendMessage"])
    target = {
        "Arn": target_arn,
        "RoleArn": account.role({"Service": "scheduler.amazonaws.com"}, may),
        "Input": INPUT,
    }
    request = {**EVERY_MINUTE, **changes, "Target": {**target, **changes.pop("Target", {})}}
    account.client("scheduler").create_schedule(Name=name, **request)
    return name


def calls(account: Account, function: str) -> int:
    """Return how often Scheduler has called a function, whether it has run since or not."""
    names = [each["parameters"].get("FunctionName") for each in account.requests("Invoke")]
    return names.count(function_arn(function))


def test_a_rate_calls_at_once_and_again_until_it_is_disabled(account: Account) -> None:
    function = account.function(REMEMBER)
    name = schedule(account, function_arn(function))
    assert eventually(lambda: calls(account, function) >= 2)
    scheduler = account.client("scheduler")
    kept = scheduler.get_schedule(Name=name)
    settings = {key: kept[key] for key in ("ScheduleExpression", "FlexibleTimeWindow", "Target")}
    scheduler.update_schedule(Name=name, **settings, State="DISABLED")
    count = still(lambda: calls(account, function))  # what was under way may still come
    assert not eventually(lambda: calls(account, function) != count, 2.0)


def test_the_input_says_for_which_time_it_is(account: Account) -> None:
    function = account.function(REMEMBER)
    name = schedule(account, function_arn(function))
    lines = eventually(lambda: [line for line in account.log(function) if "due" in line])
    account.client("scheduler").delete_schedule(Name=name)
    assert lines[0].startswith("due 20")
    assert lines[0].strip().endswith("Z attempt 1")


def test_what_cannot_be_delivered_is_a_dead_letter_with_its_reason(account: Account) -> None:
    url, arn = account.queue()
    name = schedule(account, function_arn("not-there"), Target={"DeadLetterConfig": {"Arn": arn}})
    sqs = account.client("sqs")
    (letter, *_) = eventually(
        lambda: sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"]).get("Messages")
    )
    account.client("scheduler").delete_schedule(Name=name)
    assert letter["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "ResourceNotFoundException"
    assert json.loads(letter["Body"])["attempt"] == "1"


def test_a_role_that_scheduler_may_not_take_is_refused(account: Account) -> None:
    role = account.role(None, allow("lambda:InvokeFunction"))  # for Lambda
    reason = "must allow AWS EventBridge Scheduler to assume the role"
    with pytest.raises(ClientError, match=reason):
        schedule(account, function_arn("any"), Target={"RoleArn": role})


@pytest.mark.parametrize(("changes", "reason"), rows(__file__, "cases.yaml", "notifications"))
def test_what_would_not_run_is_refused(
    account: Account, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ClientError, match=reason):
        schedule(account, function_arn("any"), **changes)


def test_schedules_are_listed_by_group_and_go_with_it(account: Account) -> None:
    scheduler, group = account.client("scheduler"), unique("group")
    scheduler.create_schedule_group(Name=group, Tags=[{"Key": "team", "Value": "ml"}])
    name = schedule(
        account, function_arn("any"), GroupName=group, ScheduleExpression="cron(0 3 * * ? *)"
    )
    assert [entry["Name"] for entry in scheduler.list_schedules(GroupName=group)["Schedules"]] == [
        name
    ]
    scheduler.delete_schedule_group(Name=group)
    assert name not in {entry["Name"] for entry in scheduler.list_schedules()["Schedules"]}


PERIOD_S = 36_000
"""Ten minutes of the account's clock, which is sixty times as fast."""


def alarm(account: Account, metric: str, **changes: Any) -> str:
    """Create an alarm for values of at least 1 in the last period, and return its name."""
    name = unique("alarm")
    settings = {
        "Namespace": "mine",
        "MetricName": metric,
        "Dimensions": [{"Name": "Of", "Value": "me"}],
        "Statistic": "Maximum",
        "Period": PERIOD_S,
        "EvaluationPeriods": 1,
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "breaching",
    }
    account.client("cloudwatch").put_metric_alarm(AlarmName=name, **settings | changes)
    return name


def state(account: Account, name: str) -> str:
    (alarm,) = account.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return str(alarm["StateValue"])


def publish(account: Account, metric: str, value: float, of: str = "me", **options: Any) -> None:
    dimensions = [{"Name": "Of", "Value": of}]
    datum = {"MetricName": metric, "Value": value, "Dimensions": dimensions, **options}
    account.client("cloudwatch").put_metric_data(Namespace="mine", MetricData=[datum])


@pytest.mark.parametrize(
    ("treatment", "expected"),
    [("breaching", "ALARM"), ("notBreaching", "OK"), ("missing", "INSUFFICIENT_DATA")],
)
def test_without_a_value_the_state_is_as_the_alarm_says(
    account: Account, treatment: str, expected: str
) -> None:
    assert state(account, alarm(account, unique("metric"), TreatMissingData=treatment)) == expected


def test_an_alarms_state_follows_what_is_published(account: Account) -> None:
    metric = unique("metric")
    name = alarm(account, metric)
    publish(account, metric, 1, of="another")
    publish(account, metric, 0)
    before = state(account, name)
    publish(account, metric, 1)
    assert (before, state(account, name)) == ("OK", "ALARM")


def test_a_value_of_an_earlier_time_hides_no_other(account: Account) -> None:
    metric = unique("metric")
    name = alarm(account, metric)
    publish(account, metric, 0)
    publish(account, metric, 1, Timestamp="2020-01-01T00:00:00Z")
    assert state(account, name) == "OK"


def test_metric_math_is_not_evaluated(account: Account) -> None:
    name, cloudwatch = unique("alarm"), account.client("cloudwatch")
    query = {"Id": "a", "Expression": "1 > 0", "ReturnData": True}
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        Metrics=[query],
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="LessThanThreshold",
    )
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    assert alarm["StateValue"] == "INSUFFICIENT_DATA"
    assert alarm["StateReason"].endswith("cannot evaluate this alarm: it is on metric math")


def test_alarms_on_aws_s_other_services_keep_what_was_set(account: Account) -> None:
    name = alarm(account, "ApproximateNumberOfMessagesVisible", Namespace="AWS/SQS")
    ok = {"StateValue": "OK", "StateReason": "looked at"}
    account.client("cloudwatch").set_alarm_state(AlarmName=name, **ok)
    assert state(account, name) == "OK"
