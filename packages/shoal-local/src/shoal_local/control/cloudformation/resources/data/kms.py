"""AWS::KMS: keys and aliases.

moto encrypts nothing at rest with them. A deleted key waits for its deletion, as on AWS.
"""

from __future__ import annotations

import json

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)
from shoal_local.control.cloudformation.resources.network.ec2 import as_bool


class Key(ResourceType):
    type_name = "AWS::KMS::Key"
    properties = names(
        "KeyPolicy Description Enabled EnableKeyRotation PendingWindowInDays KeySpec KeyUsage"
        " MultiRegion Tags"
    )
    replaced_by = names("KeySpec KeyUsage MultiRegion")

    def create(self, request: Request) -> Created:
        kms = request.client("kms")
        policy = (
            {"Policy": json.dumps(request["KeyPolicy"])}
            if "KeyPolicy" in request.properties
            else {}
        )
        key = kms.create_key(
            **request.only("Description", "KeySpec", "KeyUsage", "MultiRegion"),
            **policy,
            Tags=key_tags(request),
        )["KeyMetadata"]
        self._configure(request, key["KeyId"])
        return Created(key["KeyId"], {"Arn": key["Arn"], "KeyId": key["KeyId"]})

    def update(self, request: Request) -> Created:
        kms, key_id = request.client("kms"), request.physical_id
        if request.changed("KeyPolicy"):
            kms.put_key_policy(
                KeyId=key_id, PolicyName="default", Policy=json.dumps(request["KeyPolicy"])
            )
        if request.changed("Description"):
            kms.update_key_description(KeyId=key_id, Description=request.get("Description", ""))
        self._configure(request, key_id)
        request.retag(
            lambda: kms.tag_resource(KeyId=key_id, Tags=key_tags(request)),
            lambda keys: kms.untag_resource(KeyId=key_id, TagKeys=keys),
        )
        return Created(key_id, request.attributes)

    def delete(self, request: Request) -> None:
        window = int(request.get("PendingWindowInDays", 30))
        request.client("kms").schedule_key_deletion(
            KeyId=request.physical_id, PendingWindowInDays=window
        )

    def _configure(self, request: Request, key_id: str) -> None:
        kms = request.client("kms")
        if request.changed("EnableKeyRotation"):
            rotate = (
                kms.enable_key_rotation
                if as_bool(request.get("EnableKeyRotation", False))
                else kms.disable_key_rotation
            )
            rotate(KeyId=key_id)
        if request.changed("Enabled"):
            switch = kms.enable_key if as_bool(request.get("Enabled", True)) else kms.disable_key
            switch(KeyId=key_id)


class Alias(ResourceType):
    type_name = "AWS::KMS::Alias"
    properties = names("AliasName TargetKeyId")
    replaced_by = names("AliasName")

    def create(self, request: Request) -> Created:
        request.client("kms").create_alias(
            AliasName=request["AliasName"], TargetKeyId=request["TargetKeyId"]
        )
        return Created(request["AliasName"])

    def update(self, request: Request) -> Created:
        request.client("kms").update_alias(
            AliasName=request["AliasName"], TargetKeyId=request["TargetKeyId"]
        )
        return Created(request.physical_id)

    def delete(self, request: Request) -> None:
        request.client("kms").delete_alias(AliasName=request.physical_id)


def key_tags(request: Request) -> list[dict[str, str]]:
    """Return the tags as KMS writes them."""
    return [{"TagKey": key, "TagValue": value} for key, value in request.tag_map().items()]


TYPES: tuple[ResourceType, ...] = (Key(), Alias())
