"""Topics and their queues: a queue's policy says which messages reach it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local_kit.control import Account, allow, unique

SNS = {"Service": "sns.amazonaws.com"}


@pytest.mark.parametrize(
    ("changes", "received"),
    [
        (None, 0),
        ({"Principal": SNS}, 1),
        ({"Principal": {"Service": "events.amazonaws.com"}}, 0),
        ({"Principal": SNS, "Condition": {"ArnEquals": {"aws:SourceArn": "TOPIC"}}}, 1),
        ({"Principal": SNS, "Condition": {"ArnEquals": {"aws:SourceArn": "other"}}}, 0),
    ],
)
def test_a_message_reaches_a_queue_whose_policy_lets_the_topic_send(
    account: Account, changes: dict[str, Any] | None, received: int
) -> None:
    """SNS developer guide, "Subscribing an Amazon SQS queue to an Amazon SNS topic" (read)."""
    sns, sqs = account.client("sns"), account.client("sqs")
    topic = sns.create_topic(Name=unique("topic"))["TopicArn"]
    url, arn = account.queue()
    if changes is not None:
        policy = json.dumps(allow("sqs:SendMessage", arn, **changes)).replace("TOPIC", topic)
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    sns.publish(TopicArn=topic, Message="m")
    assert len(sqs.receive_message(QueueUrl=url).get("Messages", [])) == received


@pytest.mark.parametrize("raw", [True, False, None])
def test_a_subscription_of_a_stack_says_whether_the_message_comes_alone(
    account: Account, raw: bool | None
) -> None:
    sns, sqs = account.client("sns"), account.client("sqs")
    topic = sns.create_topic(Name=unique("topic"))["TopicArn"]
    url, arn = account.queue()
    policy = json.dumps(allow("sqs:SendMessage", arn, Principal=SNS))
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    properties = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": arn}
    chosen = {} if raw is None else {"RawMessageDelivery": raw}
    account.stack({"One": {"Type": "AWS::SNS::Subscription", "Properties": properties | chosen}})
    sns.publish(TopicArn=topic, Message="m")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert (message["Body"] == "m") is bool(raw)
