"""The roles that a repository's workflows assume in an environment: to deploy, to look for drift,
and to promote.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk

from shoal.constructs.roles.github_role import WorkflowRole
from shoal.settings.names import BUILDERS, SEALED, Names
from shoal.settings.organisation import bootstrap_version

DEPLOY, LOOK, PROMOTE = "deliver", "look", "promote"
_SESSION_HOURS = {DEPLOY: 2, LOOK: 1, PROMOTE: 1}
"""As long as the actor's job in .github/workflows may run: a job that assumes the bootstrap's roles
needs its first session to the end.
"""
_BOOTSTRAP_ROLES = ("deploy", "file-publishing", "image-publishing", "lookup")


class DeliveryRoles:
    """Adds them to `stack`; `provider` is the ARN of the host's identity provider."""

    def __init__(self, stack: cdk.Stack, *, names: Names, provider: str) -> None:
        self._stack, self._names, self._provider = stack, names, provider

    def add_deploy_role(self) -> None:
        """Add a role that may assume the roles of `cdk bootstrap` in this account and region, start
        the builds of images, and nothing else.
        """
        role = self._add_assuming_role(DEPLOY, "Deploy", "", _BOOTSTRAP_ROLES)
        each, version = self._names.each, bootstrap_version(self._names.qualifier)
        projects = [names.build_project(use) for names in each for use in BUILDERS]
        parameters = [names.image_parameters for names in each]
        role.allow_part("build-images", projects=projects, parameters=parameters)
        if (delivery := self._names.environment.delivery) and delivery.gitlab:
            role.allow_part("follow-builds", parameter=version, projects=projects)

    def add_look_role(self) -> None:
        """Add a role that may assume the bootstrap's read-only role: for the nightly drift check,
        which waits for no reviewer.
        """
        self._add_assuming_role(LOOK, "Look", "-look", ("lookup",))

    def add_promotion_role(self) -> None:
        """Add a role that may read what `shoal promote` looks at, where models are trained. It may
        change nothing.
        """
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
    ) -> WorkflowRole:
        role = self._role(actor, construct_id, suffix)
        role.allow_part("deliver", kinds=kinds, qualifier=self._names.qualifier)
        return role

    def _role(self, actor: str, prefix: str, suffix: str) -> WorkflowRole:
        """Return the actor's role, whose ARN is an output of the stack.

        `suffix` follows the environment's name in that of the workflow's environment.
        """
        name = self._names.environment.name
        role = WorkflowRole(
            self._stack,
            f"{prefix}-{name}",
            names=self._names,
            actor=actor,
            workflow_environment=f"{name}{suffix}",
            provider_arn=self._provider,
            session_hours=_SESSION_HOURS[actor],
        )
        output = f"{prefix}RoleArn{name.replace('-', '')}"
        cdk.CfnOutput(self._stack, output, value=role.role_arn)
        return role
