"""AWS::IAM: roles, inline policies, managed policies and identity providers.

No provider's token is accepted here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    ignore_missing,
    names,
    undo_on_failure,
)


class Role(ResourceType):
    type_name = "AWS::IAM::Role"
    properties = names(
        "RoleName Path AssumeRolePolicyDocument Description ManagedPolicyArns Policies"
        " MaxSessionDuration PermissionsBoundary Tags"
    )
    replaced_by = names("RoleName Path")

    def create(self, request: Request) -> Created:
        iam = request.client("iam")
        name = request.name("RoleName")
        role = iam.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=json.dumps(request["AssumeRolePolicyDocument"]),
            Tags=request.tags(),
            **request.only("Path", "Description", "MaxSessionDuration", "PermissionsBoundary"),
        )["Role"]
        with undo_on_failure(lambda: self.delete(replace(request, physical_id=name))):
            _attach(iam, name, request.get("ManagedPolicyArns", []))
            _put(iam, name, request.get("Policies", []))
        return Created(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def update(self, request: Request) -> Created:
        iam, name = request.client("iam"), request.physical_id
        iam.update_assume_role_policy(
            RoleName=name, PolicyDocument=json.dumps(request["AssumeRolePolicyDocument"])
        )
        if request.changed("Description", "MaxSessionDuration"):
            iam.update_role(
                RoleName=name,
                Description=request.get("Description", ""),
                MaxSessionDuration=int(request.get("MaxSessionDuration", 3600)),
            )
        _attach(
            iam,
            name,
            set(request.get("ManagedPolicyArns", []))
            - set(request.old.get("ManagedPolicyArns", [])),
        )
        for arn in set(request.old.get("ManagedPolicyArns", [])) - set(
            request.get("ManagedPolicyArns", [])
        ):
            ignore_missing(lambda arn=arn: iam.detach_role_policy(RoleName=name, PolicyArn=arn))  # type: ignore[misc]
        _put(iam, name, request.get("Policies", []))
        policy_names = {policy["PolicyName"] for policy in request.get("Policies", [])}
        _remove(
            iam,
            name,
            {policy["PolicyName"] for policy in request.old.get("Policies", [])} - policy_names,
        )
        _boundary(iam, request)
        _retag(iam, request)
        return Created(name, request.attributes)

    def delete(self, request: Request) -> None:
        iam, name = request.client("iam"), request.physical_id
        for arn in request.get("ManagedPolicyArns", []):
            ignore_missing(lambda arn=arn: iam.detach_role_policy(RoleName=name, PolicyArn=arn))  # type: ignore[misc]
        _remove(iam, name, [policy["PolicyName"] for policy in request.get("Policies", [])])
        iam.delete_role(RoleName=name)


class Policy(ResourceType):
    type_name = "AWS::IAM::Policy"
    properties = names("PolicyName PolicyDocument Roles")
    replaced_by = names("PolicyName")

    def create(self, request: Request) -> Created:
        for role in request["Roles"]:
            _put(request.client("iam"), role, [request.properties])
        return Created(request.generated_name(), {"Id": request["PolicyName"]})

    def update(self, request: Request) -> Created:
        iam = request.client("iam")
        for role in request["Roles"]:
            _put(iam, role, [request.properties])
        for role in set(request.old["Roles"]) - set(request["Roles"]):
            _remove(iam, role, [request["PolicyName"]])
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        for role in request["Roles"]:
            _remove(request.client("iam"), role, [request["PolicyName"]])


class ManagedPolicy(ResourceType):
    type_name = "AWS::IAM::ManagedPolicy"
    properties = names("ManagedPolicyName Path PolicyDocument Description Roles")
    replaced_by = names("ManagedPolicyName Path Description")

    def create(self, request: Request) -> Created:
        iam = request.client("iam")
        policy = iam.create_policy(
            PolicyName=request.name("ManagedPolicyName", 128),
            PolicyDocument=json.dumps(request["PolicyDocument"]),
            **request.only("Path", "Description"),
        )["Policy"]
        for role in request.get("Roles", []):
            _attach(iam, role, [policy["Arn"]])
        return Created(policy["Arn"], {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"]})

    def update(self, request: Request) -> Created:
        iam, arn = request.client("iam"), request.physical_id
        if request.changed("PolicyDocument"):
            iam.create_policy_version(
                PolicyArn=arn,
                PolicyDocument=json.dumps(request["PolicyDocument"]),
                SetAsDefault=True,
            )
            _delete_old_versions(iam, arn)
        roles, old_roles = set(request.get("Roles", [])), set(request.old.get("Roles", []))
        for role in roles - old_roles:
            _attach(iam, role, [arn])
        for role in old_roles - roles:
            ignore_missing(lambda role=role: iam.detach_role_policy(RoleName=role, PolicyArn=arn))  # type: ignore[misc]
        return Created(arn, request.attributes)

    def delete(self, request: Request) -> None:
        iam, arn = request.client("iam"), request.physical_id
        for role in request.get("Roles", []):
            ignore_missing(lambda role=role: iam.detach_role_policy(RoleName=role, PolicyArn=arn))  # type: ignore[misc]
        ignore_missing(lambda: _delete_old_versions(iam, arn))
        iam.delete_policy(PolicyArn=arn)


def _attach(iam: Any, role: str, arns: Iterable[str]) -> None:
    for arn in arns:
        iam.attach_role_policy(RoleName=role, PolicyArn=arn)


def _put(iam: Any, role: str, policies: Iterable[Any]) -> None:
    for policy in policies:
        iam.put_role_policy(
            RoleName=role,
            PolicyName=policy["PolicyName"],
            PolicyDocument=json.dumps(policy["PolicyDocument"]),
        )


def _remove(iam: Any, role: str, policy_names: Iterable[str]) -> None:
    for name in policy_names:
        ignore_missing(lambda name=name: iam.delete_role_policy(RoleName=role, PolicyName=name))  # type: ignore[misc]


def _boundary(iam: Any, request: Request) -> None:
    if request.changed("PermissionsBoundary"):
        boundary = request.get("PermissionsBoundary")
        if boundary:
            iam.put_role_permissions_boundary(
                RoleName=request.physical_id, PermissionsBoundary=boundary
            )
        else:
            iam.delete_role_permissions_boundary(RoleName=request.physical_id)


def _retag(iam: Any, request: Request) -> None:
    name = request.physical_id
    request.retag(
        lambda: iam.tag_role(RoleName=name, Tags=request.tags()),
        lambda keys: iam.untag_role(RoleName=name, TagKeys=keys),
    )


def _delete_old_versions(iam: Any, arn: str) -> None:
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


class IdentityProvider(ResourceType):
    type_name = "AWS::IAM::OIDCProvider"
    properties = names("Url ClientIdList ThumbprintList Tags")
    replaced_by = names("Url")

    def create(self, request: Request) -> Created:
        response = request.client("iam").create_open_id_connect_provider(
            Url=request["Url"],
            ClientIDList=request.get("ClientIdList", []),
            ThumbprintList=request.get("ThumbprintList", []),
            Tags=request.tags(),
        )
        return Created(
            response["OpenIDConnectProviderArn"], {"Arn": response["OpenIDConnectProviderArn"]}
        )

    def update(self, request: Request) -> Created:
        iam, arn = request.client("iam"), request.physical_id
        new_clients, old_clients = (
            set(request.get("ClientIdList", [])),
            set(request.old.get("ClientIdList", [])),
        )
        for client in new_clients - old_clients:
            iam.add_client_id_to_open_id_connect_provider(
                OpenIDConnectProviderArn=arn, ClientID=client
            )
        for client in old_clients - new_clients:
            iam.remove_client_id_from_open_id_connect_provider(
                OpenIDConnectProviderArn=arn, ClientID=client
            )
        return Created(arn, request.attributes)

    def delete(self, request: Request) -> None:
        arn = request.physical_id
        request.client("iam").delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)


TYPES: tuple[ResourceType, ...] = (Role(), Policy(), ManagedPolicy(), IdentityProvider())
