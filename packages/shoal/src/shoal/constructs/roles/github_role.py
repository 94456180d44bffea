"""The role that a repository's workflow may assume in one of its environments on GitHub.

GitHub signs a token for each job. The token's subject names the repository and, where the job names
one, the environment, whose rules (reviewers, branches) GitHub applies before it signs. Source:
https://docs.github.com/en/actions/reference/security/oidc and the IAM user guide, "Configuring a
role for GitHub OIDC identity provider".
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.constructs.roles.stated_role import StatedRole
from shoal.settings.names import Names
from shoal.settings.settings import Environment

HOST = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"


def identity_provider(
    scope: Construct, construct_id: str, environments: Sequence[Environment]
) -> str:
    """Return the ARN of GitHub's identity provider, which an account has at most once: create it
    in `scope`, unless a section `delivery` says that it exists.
    """
    if not all(each.delivery and each.delivery.create_provider for each in environments):
        return f"arn:aws:iam::{environments[0].account}:oidc-provider/{HOST}"
    provider = iam.OidcProviderNative(
        scope, construct_id, url=f"https://{HOST}", client_ids=[AUDIENCE]
    )
    return provider.oidc_provider_arn


class GitHubRole(StatedRole):
    """`workflow_environment` is the environment on GitHub."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        actor: str,
        workflow_environment: str,
        provider_arn: str,
        session_hours: int,
    ) -> None:
        """`session_hours`, from 1 to 12, is the longest session that a workflow may request."""
        delivery, boundary = names.environment.delivery, names.environment.permissions_boundary
        if delivery is None:
            raise ValueError(f"environment {names.environment.name} has no section delivery")
        subject = f"repo:{delivery.repository}:environment:{workflow_environment}"
        conditions = {"StringEquals": {f"{HOST}:aud": AUDIENCE, f"{HOST}:sub": subject}}
        policies = iam.ManagedPolicy
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor=actor,
            description=(
                f"Workflows of {delivery.repository} in the environment {workflow_environment}"
            ),
            assumed_by=iam.WebIdentityPrincipal(provider_arn, conditions),
            max_session_duration=cdk.Duration.hours(session_hours),
            permissions_boundary=(
                policies.from_managed_policy_name(scope, f"{construct_id}Boundary", boundary)
                if boundary
                else None
            ),
        )
