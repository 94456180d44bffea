"""AWS::IAM: roles and managed policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
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
        name = request.name("RoleName")
        role = request.call(
            "iam",
            "CreateRole",
            RoleName=name,
            AssumeRolePolicyDocument=request["AssumeRolePolicyDocument"],
            Tags=request.tags(),
            **request.only("Path", "Description", "MaxSessionDuration", "PermissionsBoundary"),
        )["Role"]
        created = replace(request, physical_id=name)
        with undo_on_failure(lambda: self.delete(created)):
            self._set_policies(created)
        return Created(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def update(self, request: Request) -> Created:
        role = {"RoleName": request.physical_id}
        document = request["AssumeRolePolicyDocument"]
        request.call("iam", "UpdateAssumeRolePolicy", **role, PolicyDocument=document)
        if request.changed("Description", "MaxSessionDuration"):
            settings = {
                "Description": request.get("Description", ""),
                "MaxSessionDuration": request.get("MaxSessionDuration", 3600),
            }
            request.call("iam", "UpdateRole", **role, **settings)
        if request.get("PermissionsBoundary"):
            boundary = request.only("PermissionsBoundary")
            request.call("iam", "PutRolePermissionsBoundary", **role, **boundary)
        elif request.changed("PermissionsBoundary"):
            request.call("iam", "DeleteRolePermissionsBoundary", **role)
        self._set_policies(request)
        request.retag("iam", request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        self._set_policies(replace(request, properties={}, old=request.properties))
        request.call("iam", "DeleteRole", RoleName=request.physical_id)

    def _set_policies(self, request: Request) -> None:
        """Attach and put the policies of the template, and take those away that it dropped."""
        role = {"RoleName": request.physical_id}
        arns = _set(request.properties, "ManagedPolicyArns")
        old_arns = _set(request.old, "ManagedPolicyArns")
        _attach(request, [request.physical_id], arns - old_arns)
        _detach(request, [request.physical_id], old_arns - arns)
        policies = {each["PolicyName"]: each for each in request.get("Policies", [])}
        for policy in policies.values():
            request.call("iam", "PutRolePolicy", **role, **policy)
        for policy in request.old.get("Policies", []):
            if policy["PolicyName"] not in policies:
                _delete_policy(request, policy["PolicyName"])


class ManagedPolicy(ResourceType):
    type_name = "AWS::IAM::ManagedPolicy"
    properties = names("ManagedPolicyName Path PolicyDocument Description Roles")
    replaced_by = names("ManagedPolicyName Path Description")

    def create(self, request: Request) -> Created:
        policy = request.call(
            "iam",
            "CreatePolicy",
            PolicyName=request.name("ManagedPolicyName", 128),
            **request.only("Path", "Description", "PolicyDocument"),
        )["Policy"]
        _attach(request, request.get("Roles", []), [policy["Arn"]])
        return Created(policy["Arn"], {"PolicyArn": policy["Arn"], "PolicyId": policy["PolicyId"]})

    def update(self, request: Request) -> Created:
        arn = request.physical_id
        if request.changed("PolicyDocument"):
            document = request.only("PolicyDocument")
            request.call("iam", "CreatePolicyVersion", PolicyArn=arn, **document, SetAsDefault=True)
            _delete_old_versions(request)
        roles, old_roles = _set(request.properties, "Roles"), _set(request.old, "Roles")
        _attach(request, roles - old_roles, [arn])
        _detach(request, old_roles - roles, [arn])
        return Created(arn, request.attributes)

    def delete(self, request: Request) -> None:
        _detach(request, request.get("Roles", []), [request.physical_id])
        ignore_missing(lambda: _delete_old_versions(request))
        request.call("iam", "DeletePolicy", PolicyArn=request.physical_id)


def _set(properties: Mapping[str, Any], name: str) -> set[str]:
    return set(properties.get(name, []))


def _attach(request: Request, roles: Iterable[str], arns: Iterable[str]) -> None:
    for role in roles:
        for arn in arns:
            request.call("iam", "AttachRolePolicy", RoleName=role, PolicyArn=arn)


def _detach(request: Request, roles: Iterable[str], arns: Iterable[str]) -> None:
    for role in roles:
        for arn in arns:
            arguments = {"RoleName": role, "PolicyArn": arn}
            ignore_missing(partial(request.call, "iam", "DetachRolePolicy", **arguments))


def _delete_policy(request: Request, name: str) -> None:
    role = request.physical_id
    ignore_missing(lambda: request.call("iam", "DeleteRolePolicy", RoleName=role, PolicyName=name))


def _delete_old_versions(request: Request) -> None:
    policy = {"PolicyArn": request.physical_id}
    for version in request.call("iam", "ListPolicyVersions", **policy)["Versions"]:
        if not version["IsDefaultVersion"]:
            version_id = version["VersionId"]
            request.call("iam", "DeletePolicyVersion", **policy, VersionId=version_id)


TYPES: tuple[ResourceType, ...] = (Role(), ManagedPolicy())
