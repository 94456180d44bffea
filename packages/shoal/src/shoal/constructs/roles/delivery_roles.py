"""The roles that workflows assume, and what environments in other accounts may read."""

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.constructs.roles.actor_role import StatedRole, resource_policy
from shoal.settings.loading.consumers import Consumer
from shoal.settings.names import BUILDERS, SEALED, Names
from shoal.settings.organisation import bootstrap_version
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


DEPLOY, LOOK, PROMOTE = "deliver", "look", "promote"
_SESSION_HOURS = {DEPLOY: 2, LOOK: 1, PROMOTE: 1}
"""As long as the actor's job in .github/workflows may run: a job that assumes the bootstrap's roles
needs its first session to the end.
"""
_BOOTSTRAP_ROLES = ("deploy", "file-publishing", "image-publishing", "lookup")


class DeliveryRoles:
    """Adds them to `stack`; `provider` is the ARN of the host's identity provider.

    The host signs a token for each job. The token's subject names the repository and, where the job
    names one, the environment, whose rules (reviewers, branches) GitHub applies before it signs. On
    GitLab it names the project and the branch. Sources:
    https://docs.github.com/en/actions/reference/security/oidc, the IAM user guide, "Configuring a
    role for GitHub OIDC identity provider", and GitLab's "Configure OpenID Connect in AWS".
    """

    def __init__(self, stack: cdk.Stack, *, names: Names, provider: str) -> None:
        self._stack, self._names, self._provider = stack, names, provider

    def add_deploy_role(self) -> None:
        """Add a role that may assume the roles of `cdk bootstrap`, start builds, and no more."""
        role = self._add_assuming_role(DEPLOY, "Deploy", "", _BOOTSTRAP_ROLES)
        each, version = self._names.each, bootstrap_version(self._names.qualifier)
        projects = [names.build_project(use) for names in each for use in BUILDERS]
        parameters = [names.image_parameters for names in each]
        role.allow_part("build-images", projects=projects, parameters=parameters)
        if (delivery := self._names.environment.delivery) and delivery.gitlab:
            role.allow_part("follow-builds", parameter=version, projects=projects)

    def add_look_role(self) -> None:
        """Add a role that only reads: for the nightly drift check, which waits for no reviewer."""
        self._add_assuming_role(LOOK, "Look", "-look", ("lookup",))

    def add_promotion_role(self) -> None:
        """Add a role that may read what `shoal promote` looks at, and change nothing."""
        each = self._names.each
        role = self._role(PROMOTE, "Promote", "-promotion")
        if self._names.environment.keeps_files:
            role.allow_list({self._names.bucket("artifacts")}, {SEALED})
        role.allow_part(
            "promote",
            groups=[names.model_package_group for names in each],
            pipelines=[names.pipeline for names in each],
            ends=["", "/execution/*"],
            code=self._names.code_bucket,
        )

    def _add_assuming_role(
        self, actor: str, construct_id: str, suffix: str, kinds: Sequence[str]
    ) -> StatedRole:
        role = self._role(actor, construct_id, suffix)
        role.allow_part("deliver", kinds=kinds, qualifier=self._names.qualifier)
        return role

    def _role(self, actor: str, prefix: str, suffix: str) -> StatedRole:
        """Return the actor's role, whose ARN is an output of the stack.

        `suffix` follows the environment's name in that of the environment on the workflow's host.
        """
        environment, name = self._names.environment, self._names.environment.name
        delivery, boundary = _delivery(environment), environment.permissions_boundary
        issuer, subject = delivery.issuer, delivery.subject(f"{name}{suffix}")
        conditions = {"StringEquals": {f"{issuer}:aud": AUDIENCE, f"{issuer}:sub": subject}}
        source = delivery.gitlab.project if delivery.gitlab else delivery.repository
        policy = iam.ManagedPolicy.from_managed_policy_name
        role = StatedRole(
            self._stack,
            f"{prefix}-{name}",
            names=self._names,
            actor=actor,
            description=f"Workflows of {source} in the environment {name}{suffix}",
            assumed_by=iam.WebIdentityPrincipal(self._provider, conditions),
            max_session_duration=cdk.Duration.hours(_SESSION_HOURS[actor]),
            permissions_boundary=(
                policy(self._stack, f"{prefix}-{name}Boundary", boundary) if boundary else None
            ),
        )
        output = f"{prefix}RoleArn{name.replace('-', '')}"
        cdk.CfnOutput(self._stack, output, value=role.role_arn)
        return role


def registry_policy(names: Names, consumers: Sequence[Consumer]) -> dict[str, Any] | None:
    """Return the policy of the model package group; None where nobody needs one.

    Everybody in a consumer's account whom its account lets may see a version and its approval; its
    role that brings archives reads sealed ones. Nothing else is allowed: no other object or list,
    no write, no approval.

    The account is the principal and a condition names the role, because AWS refuses a policy whose
    principal does not exist, and the role is made after this (IAM user guide, "AWS JSON policy
    elements: Principal"). The caller's account must allow the same (SageMaker developer guide,
    "Cross-account discoverability" of model registries; of bucket and key:
    shoal.settings.external_data). Run against shoal-local; only read for AWS.
    """
    statements = _for_consumers("see-registry", names, consumers)
    return iam.PolicyDocument(statements=statements).to_json() if statements else None


def bucket_statements(names: Names, consumers: Sequence[Consumer]) -> list[iam.PolicyStatement]:
    """Return the statements for the artifact bucket."""
    roles = [each.role_arn for each in consumers]
    statements = _for_consumers("read-sealed", names, consumers, roles=roles)
    if names.environment.keeps_files:
        statements += _for_consumers("list-sealed", names, consumers, roles=roles)
    return statements


def image_statements(consumers: Sequence[Consumer]) -> list[iam.PolicyStatement]:
    """Return the statements for a repository of images: consumers' containers are pulled from it.

    Source: Amazon ECR user guide, "Private repository policy examples"; what SageMaker's roles need
    for a model besides (developer guide, "SageMaker AI execution roles") is allowed here, too.
    """
    words = ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer")
    actions = [f"ecr:{each}" for each in words]
    pull = iam.PolicyStatement(sid="PullImages", principals=_accounts(consumers), actions=actions)
    return [pull] if consumers else []


def _for_consumers(
    part: str, names: Names, consumers: Sequence[Consumer], **values: Any
) -> list[iam.PolicyStatement]:
    """Return what the consumers' accounts may delegate to their own principals."""
    if not consumers:
        return []
    return resource_policy(part, names, *_accounts(consumers), **values)


def _accounts(consumers: Sequence[Consumer]) -> list[iam.IPrincipal]:
    return [iam.AccountPrincipal(each) for each in sorted({each.account for each in consumers})]
