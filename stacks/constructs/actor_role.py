"""The IAM role of one actor: a service that may assume it goes in, explicit statements with literal ARNs come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam
from constructs import Construct

from config.names import Names
from stacks.constructs.acknowledge import acknowledge

# The key that names the account on whose behalf a service acts: without it another account could make the service use our role.
_SOURCE_ACCOUNT = "aws:SourceAccount"


class ActorRole(iam.Role):
    """A role with the physical name `Names.role(actor)`, assumable by one service on behalf of this account only."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, actor: str, service: str, description: str) -> None:
        super().__init__(
            scope,
            construct_id,
            role_name=names.role(actor),
            description=description,
            assumed_by=iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=_trust(service, names.environment.account)),
        )

    def allow(
        self, sid: str, actions: Sequence[str], on: Sequence[str], *, when: Mapping[str, Any] | None = None, because: str = ""
    ) -> None:
        """Allow `actions` on the ARNs `on`. A wildcard in an ARN needs its reason in `because`."""
        wildcards = [resource for resource in on if "*" in resource]
        if bool(wildcards) != bool(because):
            raise ValueError(f"{sid}: a reason is needed for wildcards, and only for them: {wildcards}")
        self.add_to_policy(iam.PolicyStatement(sid=sid, actions=[*actions], resources=[*on], conditions=dict(when) if when else None))
        acknowledge(self, {f"AwsSolutions-IAM5[Resource::{resource}]": because for resource in wildcards})


def _trust(service: str, account: str) -> dict[str, dict[str, str]]:
    # SageMaker, VPC flow logs and others document that they send the key. Lambda does not document it for execution roles: there
    # the condition holds only if the key is present.
    operator = "StringEqualsIfExists" if service == "lambda" else "StringEquals"
    return {operator: {_SOURCE_ACCOUNT: account}}
