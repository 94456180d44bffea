"""AWS::SQS: queues and the policies on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    names,
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
    """Return an attribute as text: documents and booleans as JSON."""
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
        attributes = {
            key: attribute_text(value) for key, value in request.only(*QUEUE_ATTRIBUTES).items()
        }
        url = request.client("sqs").create_queue(
            QueueName=name, Attributes=attributes, tags=request.tag_map()
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
            attributes = {name: attribute_text(request[name]) for name in changed}
            request.client("sqs").set_queue_attributes(
                QueueUrl=request.physical_id, Attributes=attributes
            )
        sqs, url = request.client("sqs"), request.physical_id
        request.retag(
            lambda: sqs.tag_queue(QueueUrl=url, Tags=request.tag_map()),
            lambda keys: sqs.untag_queue(QueueUrl=url, TagKeys=keys),
        )
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("sqs").delete_queue(QueueUrl=request.physical_id)


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
        self._set(request, request["Queues"], "")

    def _set(self, request: Request, urls: list[str], policy: str) -> None:
        for url in urls:
            request.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})


TYPES: tuple[ResourceType, ...] = (Queue(), QueuePolicy())
