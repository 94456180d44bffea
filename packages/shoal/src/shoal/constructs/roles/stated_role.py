"""A role with literal statements, each with a reason where an ARN has a wildcard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam

from shoal.constructs.roles.acknowledge import acknowledge


class StatedRole(iam.Role):
    """A role whose permissions are stated one by one; its subclass decides who may assume it."""

    def allow(
        self,
        sid: str,
        actions: Sequence[str],
        on: Sequence[str],
        *,
        when: Mapping[str, Any] | None = None,
        because: str = "",
    ) -> None:
        """Allow `actions` on the ARNs `on`. A wildcard in an ARN needs its reason in `because`."""
        wildcards = [resource for resource in on if "*" in resource]
        if bool(wildcards) != bool(because):
            raise ValueError(
                f"{sid}: a reason is needed for wildcards, and only for them: {wildcards}"
            )
        self.add_to_policy(
            iam.PolicyStatement(
                sid=sid,
                actions=[*actions],
                resources=[*on],
                conditions=dict(when) if when else None,
            )
        )
        acknowledge(
            self, {f"AwsSolutions-IAM5[Resource::{resource}]": because for resource in wildcards}
        )

    def deny(
        self, sid: str, actions: Sequence[str], *, when: Mapping[str, Any] | None = None
    ) -> None:
        """Deny `actions` on everything, whatever another statement or policy allows, now or
        later.
        """
        conditions = dict(when) if when else None
        self.add_to_policy(
            iam.PolicyStatement(
                sid=sid,
                effect=iam.Effect.DENY,
                actions=[*actions],
                resources=["*"],
                conditions=conditions,
            )
        )
