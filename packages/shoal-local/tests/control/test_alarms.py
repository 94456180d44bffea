"""Alarms on what programs publish follow the measurements; alarms on AWS's other services keep the
state that was set.
"""

from __future__ import annotations

from typing import Any

import pytest

from local_kit.control import Account, unique

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
def test_without_a_value_it_is_as_the_alarm_says(
    account: Account, treatment: str, expected: str
) -> None:
    assert state(account, alarm(account, unique("metric"), TreatMissingData=treatment)) == expected


def test_its_state_follows_what_is_published(account: Account) -> None:
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
