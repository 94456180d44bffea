"""Amazon SQS, SNS, EventBridge and EventBridge Scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, pass_role, same, table
from shoal_local.control.authorization.services.kms import use_of_key

QUEUE_KEYS = {
    "SendMessage": "kms:GenerateDataKey",
    "SendMessageBatch": "kms:GenerateDataKey",
    "ReceiveMessage": "kms:Decrypt",
}
ENCRYPTED_QUEUE = "SQS developer guide, key management: configure KMS permissions"
BATCHES = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}


def _on_queue(asked: Asked) -> Iterator[Question]:
    """A queue is named, or meant by its URL, which ends in its account and its name."""
    operation = asked.call.operation
    before, _, last = str(asked.get("QueueUrl", "*")).rpartition("/")
    name = asked.get("QueueName") or last
    owner = asked.get("QueueOwnerAWSAccountId") or before.rpartition("/")[2]
    queue = f"arn:aws:sqs:{asked.region}:{owner if owner.isdigit() else asked.account}:{name}"
    yield Question(
        f"sqs:{operation.removesuffix('Batch')}", queue, {**asked.tags_of(queue), **asked.tagging()}
    )
    if operation == "CreateQueue" and asked.tagging():
        yield Question("sqs:TagQueue", queue, asked.tagging())
    if operation in QUEUE_KEYS:
        yield from use_of_key(
            asked, QUEUE_KEYS[operation], asked.known.key_of_queue(name), "sqs", ENCRYPTED_QUEUE
        )


def _publish(asked: Asked) -> Iterator[Question]:
    yield Question("sns:Publish", asked.get("TopicArn") or asked.get("TargetArn") or "*")


def _subscribe(asked: Asked) -> Iterator[Question]:
    keys = {"sns:Protocol": "Protocol", "sns:Endpoint": "Endpoint"}
    given: dict[str, ContextValue] = {
        key: str(asked.get(name)) for key, name in keys.items() if asked.get(name)
    }
    yield Question("sns:Subscribe", asked.get("TopicArn", "*"), given)


def _topic_of_subscription(asked: Asked) -> Iterator[Question]:
    yield Question(
        f"sns:{asked.call.operation}",
        str(asked.get("SubscriptionArn", "*")).rpartition(":")[0] or "*",
    )


def _on_rule(asked: Asked) -> Iterator[Question]:
    name = asked.get("Name") or asked.get("Rule") or asked.get("RuleName") or "*"
    rule = asked.arn("events", f"rule/{name}")
    targets = [str(target["Arn"]) for target in asked.get("Targets", []) if target.get("Arn")]
    about: Mapping[str, ContextValue] = (
        {"events:TargetArn": targets} if targets and asked.call.operation == "PutTargets" else {}
    )
    yield Question(
        f"events:{asked.call.operation}", rule, {**asked.tags_of(rule), **asked.tagging(), **about}
    )
    if asked.call.operation == "PutRule" and asked.tagging():
        yield Question("events:TagResource", rule, asked.tagging())
    for target in asked.get("Targets", []):
        yield from pass_role(target.get("RoleArn"), "events.amazonaws.com")


def _put_events(asked: Asked) -> Iterator[Question]:
    for entry in asked.get("Entries", []):
        bus = str(entry.get("EventBusName") or "default")
        keys: dict[str, ContextValue] = {
            "events:source": str(entry.get("Source")),
            "events:detail-type": str(entry.get("DetailType")),
        }
        yield Question(
            "events:PutEvents",
            bus if bus.startswith("arn:") else asked.arn("events", f"event-bus/{bus}"),
            keys,
        )


def _schedule(asked: Asked) -> Iterator[Question]:
    schedule = asked.arn(
        "scheduler", f"schedule/{asked.get('GroupName', 'default')}/{asked.get('Name', '*')}"
    )
    yield Question(f"scheduler:{asked.call.operation}", schedule)
    yield from pass_role(asked.get("Target", {}).get("RoleArn"), "scheduler.amazonaws.com")


SQS: Mapping[str, Rule] = table(
    "sqs",
    {
        **same(
            "ChangeMessageVisibility ChangeMessageVisibilityBatch CreateQueue DeleteMessage"
            " DeleteMessageBatch DeleteQueue GetQueueAttributes GetQueueUrl ListQueueTags"
            " PurgeQueue ReceiveMessage SendMessage SendMessageBatch SetQueueAttributes TagQueue"
            " UntagQueue AddPermission RemovePermission ListDeadLetterSourceQueues",
            _on_queue,
        ),
        "ListQueues": "*",
    },
)
SNS: Mapping[str, Rule] = table(
    "sns",
    {
        "CreateTopic": "{Name}",
        **same(
            "DeleteTopic GetTopicAttributes SetTopicAttributes ListSubscriptionsByTopic"
            " AddPermission RemovePermission",
            "{TopicArn}",
        ),
        **same("TagResource UntagResource ListTagsForResource", "{ResourceArn}"),
        **same(
            "Unsubscribe GetSubscriptionAttributes SetSubscriptionAttributes",
            _topic_of_subscription,
        ),
        "Subscribe": _subscribe,
        "Publish": _publish,
        **same("ListTopics ListSubscriptions", "*"),
    },
)
EVENTS: Mapping[str, Rule] = table(
    "events",
    {
        **same(
            "DeleteRule DescribeRule DisableRule EnableRule ListTargetsByRule PutRule PutTargets"
            " RemoveTargets",
            _on_rule,
        ),
        **same("TagResource UntagResource ListTagsForResource", "{ResourceARN}"),
        "PutEvents": _put_events,
        **same("ListRules ListEventBuses ListRuleNamesByTarget", "*"),
        "DescribeEventBus": "event-bus/{Name}",
    },
)
SCHEDULER: Mapping[str, Rule] = table(
    "scheduler",
    {
        **same("CreateSchedule UpdateSchedule DeleteSchedule GetSchedule", _schedule),
        **same("CreateScheduleGroup DeleteScheduleGroup GetScheduleGroup", "schedule-group/{Name}"),
        **same("TagResource UntagResource ListTagsForResource", "{ResourceArn}"),
        **same("ListSchedules ListScheduleGroups", "*"),
    },
)
