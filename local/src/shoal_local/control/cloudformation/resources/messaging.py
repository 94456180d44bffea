"""AWS::SQS, AWS::SNS and AWS::Events: queues, topics, rules and the policies on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    gone_is_fine,
    names,
    undone_on_failure,
)

QUEUE_ATTRIBUTES = (
    "DelaySeconds",
    "FifoQueue",
    "ContentBasedDeduplication",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "VisibilityTimeout",
    "KmsMasterKeyId",
    "KmsDataKeyReusePeriodSeconds",
    "SqsManagedSseEnabled",
    "RedrivePolicy",
    "RedriveAllowPolicy",
)


def attribute_text(value: Any) -> str:
    """Queue and topic attributes are text: JSON for documents, `true` and `false` for booleans."""
    return json.dumps(value) if isinstance(value, Mapping | list | bool) else str(value)


class Queue(ResourceType):
    type_name = "AWS::SQS::Queue"
    properties = frozenset({"QueueName", "Tags", *QUEUE_ATTRIBUTES})
    replaced_by = names("QueueName FifoQueue")

    def create(self, request: Request) -> Created:
        fifo = (
            ".fifo"
            if str(request.get("FifoQueue", "")).lower() == "true" and not request.get("QueueName")
            else ""
        )
        name = request.name("QueueName", 80 - len(fifo)) + fifo
        wanted = {
            key: attribute_text(value) for key, value in request.only(*QUEUE_ATTRIBUTES).items()
        }
        url = request.client("sqs").create_queue(
            QueueName=name, Attributes=wanted, tags=request.tag_map()
        )["QueueUrl"]
        arn = f"arn:aws:sqs:{request.region}:{request.account}:{name}"
        return Created(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})

    def update(self, request: Request) -> Created:
        changed = [
            name
            for name in QUEUE_ATTRIBUTES
            if request.changed(name) and name in request.properties
        ]
        removed = [
            name
            for name in QUEUE_ATTRIBUTES
            if name in request.old and name not in request.properties
        ]
        if removed:
            raise ResourceError(
                f"Shoal's emulator cannot take {removed[0]} away from a queue; write the value it"
                " should have"
            )
        if changed:
            wanted = {name: attribute_text(request[name]) for name in changed}
            request.client("sqs").set_queue_attributes(
                QueueUrl=request.physical_id, Attributes=wanted
            )
        sqs, url = request.client("sqs"), request.physical_id
        request.retag(
            lambda: sqs.tag_queue(QueueUrl=url, Tags=request.tag_map()),
            lambda keys: sqs.untag_queue(QueueUrl=url, TagKeys=keys),
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        gone_is_fine(lambda: request.client("sqs").delete_queue(QueueUrl=request.physical_id))


class QueuePolicy(ResourceType):
    type_name = "AWS::SQS::QueuePolicy"
    properties = names("Queues PolicyDocument")

    def create(self, request: Request) -> Created:
        self._set(request, request["Queues"], json.dumps(request["PolicyDocument"]))
        return Created(request.generated_name())

    def update(self, request: Request) -> Created:
        self._set(
            request, [url for url in request.old["Queues"] if url not in request["Queues"]], ""
        )
        self._set(request, request["Queues"], json.dumps(request["PolicyDocument"]))
        return Created(request.physical_id)

    def delete(self, request: Request) -> None:
        gone_is_fine(lambda: self._set(request, request["Queues"], ""))

    def _set(self, request: Request, urls: list[str], policy: str) -> None:
        for url in urls:
            request.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})


class Topic(ResourceType):
    type_name = "AWS::SNS::Topic"
    properties = names("TopicName DisplayName KmsMasterKeyId Tags")
    replaced_by = names("TopicName")

    def create(self, request: Request) -> Created:
        name = request.name("TopicName", 256)
        wanted = {
            key: str(value) for key, value in request.only("DisplayName", "KmsMasterKeyId").items()
        }
        arn = request.client("sns").create_topic(Name=name, Attributes=wanted, Tags=request.tags())[
            "TopicArn"
        ]
        return Created(arn, {"TopicArn": arn, "TopicName": name})

    def update(self, request: Request) -> Created:
        for name in ("DisplayName", "KmsMasterKeyId"):
            if request.changed(name):
                value = str(request.get(name, ""))
                request.client("sns").set_topic_attributes(
                    TopicArn=request.physical_id, AttributeName=name, AttributeValue=value
                )
        sns, arn = request.client("sns"), request.physical_id
        request.retag(
            lambda: sns.tag_resource(ResourceArn=arn, Tags=request.tags()),
            lambda keys: sns.untag_resource(ResourceArn=arn, TagKeys=keys),
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        gone_is_fine(lambda: request.client("sns").delete_topic(TopicArn=request.physical_id))


class TopicPolicy(ResourceType):
    type_name = "AWS::SNS::TopicPolicy"
    properties = names("Topics PolicyDocument")

    def create(self, request: Request) -> Created:
        self._set(request)
        return Created(request.generated_name())

    def update(self, request: Request) -> Created:
        self._set(request)
        return Created(request.physical_id)

    def delete(self, request: Request) -> None:
        """A topic keeps the policy it has: a topic without one does not exist, and it usually goes
        with the stack.
        """

    def _set(self, request: Request) -> None:
        policy = json.dumps(request["PolicyDocument"])
        for topic in request["Topics"]:
            request.client("sns").set_topic_attributes(
                TopicArn=topic, AttributeName="Policy", AttributeValue=policy
            )


class EventRule(ResourceType):
    type_name = "AWS::Events::Rule"
    properties = names(
        "Name Description EventPattern State Targets EventBusName RoleArn ScheduleExpression Tags"
    )
    replaced_by = names("Name EventBusName")

    def create(self, request: Request) -> Created:
        name = request.name("Name", 64)
        with undone_on_failure(lambda: self.delete(replace(request, physical_id=name))):
            arn = self._put(request, name)
        return Created(name, {"Arn": arn})

    def update(self, request: Request) -> Created:
        self._put(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        events, name = request.client("events"), request.physical_id
        targets = [target["Id"] for target in request.get("Targets", [])]
        if targets:
            gone_is_fine(lambda: events.remove_targets(Rule=name, Ids=targets))
        gone_is_fine(lambda: events.delete_rule(Name=name))

    def _put(self, request: Request, name: str) -> str:
        events = request.client("events")
        pattern = (
            {"EventPattern": json.dumps(request["EventPattern"])}
            if request.get("EventPattern")
            else {}
        )
        wanted = request.only(
            "Description", "State", "EventBusName", "RoleArn", "ScheduleExpression"
        )
        arn = events.put_rule(Name=name, **pattern, **wanted)["RuleArn"]
        request.retag(
            lambda: events.tag_resource(ResourceARN=arn, Tags=request.tags()),
            lambda keys: events.untag_resource(ResourceARN=arn, TagKeys=keys),
        )
        targets = request.get("Targets", [])
        kept = {target["Id"] for target in targets}
        removed = [
            target["Id"] for target in request.old.get("Targets", []) if target["Id"] not in kept
        ]
        if removed:
            events.remove_targets(Rule=name, Ids=removed)
        if targets:
            made = events.put_targets(Rule=name, Targets=targets)
            if made["FailedEntryCount"]:
                raise ResourceError(made["FailedEntries"][0]["ErrorMessage"])
        return str(arn)


TYPES: tuple[ResourceType, ...] = (Queue(), QueuePolicy(), Topic(), TopicPolicy(), EventRule())
