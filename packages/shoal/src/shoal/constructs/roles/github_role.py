"""The role that a repository's workflow may assume in one of its environments on GitHub, or a
project's pipeline on one branch on GitLab.

The host signs a token for each job. The token's subject names the repository and, where the job
names one, the environment, whose rules (reviewers, branches) GitHub applies before it signs. On
GitLab it names the project and the branch. Sources:
https://docs.github.com/en/actions/reference/security/oidc, the IAM user guide, "Configuring a role
for GitHub OIDC identity provider", and GitLab's "Configure OpenID Connect in AWS".
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.constructs.roles.actor_role import StatedRole
from shoal.settings.names import Names
from shoal.settings.sections.delivery import Delivery
from shoal.settings.settings import Environment

AUDIENCE = "sts.amazonaws.com"


def identity_provider(
    scope: Construct, construct_id: str, environments: Sequence[Environment]
) -> str:
    """Return the ARN of the identity provider of the environments' one host, which an account has
    at most once: create it in `scope`, unless a section `delivery` says that it exists.
    """
    sections = [_delivery(each) for each in environments]
    issuer = sections[0].issuer
    if not all(each.create_provider for each in sections):
        return f"arn:aws:iam::{environments[0].account}:oidc-provider/{issuer}"
    provider = iam.OidcProviderNative(
        scope, construct_id, url=f"https://{issuer}", client_ids=[AUDIENCE]
    )
    return provider.oidc_provider_arn


def _delivery(environment: Environment) -> Delivery:
    if environment.delivery is None:
        raise ValueError(f"environment {environment.name} has no section delivery")
    return environment.delivery


class WorkflowRole(StatedRole):
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
        delivery, boundary = _delivery(names.environment), names.environment.permissions_boundary
        issuer, subject = delivery.issuer, delivery.subject(workflow_environment)
        conditions = {"StringEquals": {f"{issuer}:aud": AUDIENCE, f"{issuer}:sub": subject}}
        source = delivery.gitlab.project if delivery.gitlab else delivery.repository
        policies = iam.ManagedPolicy
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor=actor,
            description=f"Workflows of {source} in the environment {workflow_environment}",
            assumed_by=iam.WebIdentityPrincipal(provider_arn, conditions),
            max_session_duration=cdk.Duration.hours(session_hours),
            permissions_boundary=(
                policies.from_managed_policy_name(scope, f"{construct_id}Boundary", boundary)
                if boundary
                else None
            ),
        )
