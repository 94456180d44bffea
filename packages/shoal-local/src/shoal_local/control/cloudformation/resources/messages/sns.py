"""AWS::SNS: topics, the policies on them, and subscriptions; no mail is sent."""

from __future__ import annotations

import json

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)


class Topic(ResourceType):
    type_name = "AWS::SNS::Topic"
    properties = names("TopicName DisplayName KmsMasterKeyId Tags")
    replaced_by = names("TopicName")

    def create(self, request: Request) -> Created:
        name = request.name("TopicName", 256)
        attributes = {
            key: str(value) for key, value in request.only("DisplayName", "KmsMasterKeyId").items()
        }
        arn = request.client("sns").create_topic(
            Name=name, Attributes=attributes, Tags=request.tags()
        )["TopicArn"]
        return Created(arn, {"TopicArn": arn, "TopicName": name})

    def update(self, request: Request) -> Created:
        for name in ("DisplayName", "KmsMasterKeyId"):
            if request.changed(name):
                value = str(request.get(name, ""))
                request.client("sns").set_topic_attributes(
                    TopicArn=request.physical_id, AttributeName=name, AttributeValue=value
                )
        request.retag_resource("sns", ResourceArn=request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("sns").delete_topic(TopicArn=request.physical_id)


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
        """Do nothing: a topic cannot be without a policy, and is usually deleted with the stack."""

    def _set(self, request: Request) -> None:
        policy = json.dumps(request["PolicyDocument"])
        for topic in request["Topics"]:
            request.client("sns").set_topic_attributes(
                TopicArn=topic, AttributeName="Policy", AttributeValue=policy
            )


class Subscription(ResourceType):
    type_name = "AWS::SNS::Subscription"
    properties = names("TopicArn Protocol Endpoint")
    replaced_by = names("TopicArn Protocol Endpoint")

    def create(self, request: Request) -> Created:
        arguments = request.only("TopicArn", "Protocol", "Endpoint")
        arn = request.client("sns").subscribe(**arguments, ReturnSubscriptionArn=True)[
            "SubscriptionArn"
        ]
        return Created(arn)

    def update(self, request: Request) -> Created:
        return Created(request.physical_id)

    def delete(self, request: Request) -> None:
        request.client("sns").unsubscribe(SubscriptionArn=request.physical_id)


TYPES: tuple[ResourceType, ...] = (Topic(), TopicPolicy(), Subscription())
