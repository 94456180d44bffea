"""The roles that a repository's workflows assume in an environment: to deploy, to look for drift,
and to promote.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk

from shoal.constructs.roles.github_role import GitHubRole
from shoal.constructs.roles.guard_rails import ANY_PACKAGE
from shoal.settings.names import Names

DEPLOY, LOOK, PROMOTE = "deliver", "look", "promote"
_SESSION_HOURS = {DEPLOY: 2, LOOK: 1, PROMOTE: 1}
"""As long as the actor's job in .github/workflows may run: a job that assumes the bootstrap's roles
needs its first session to the end.
"""
_BOOTSTRAP_ROLES = ("deploy", "file-publishing", "image-publishing", "lookup")
_QUALIFIER = cdk.DefaultStackSynthesizer.DEFAULT_QUALIFIER


class DeliveryRoles:
    """Adds them to `stack`; `provider` is the ARN of GitHub's identity provider."""

    def __init__(self, stack: cdk.Stack, *, names: Names, provider: str) -> None:
        self._stack, self._names, self._provider = stack, names, provider

    def add_deploy_role(self) -> None:
        """Add a role that may assume the roles of `cdk bootstrap` in this account and region, and
        nothing else.
        """
        self._add_assuming_role(DEPLOY, self._names.environment.name, _BOOTSTRAP_ROLES)

    def add_look_role(self) -> None:
        """Add a role that may assume the bootstrap's read-only role: for the nightly drift check,
        which waits for no reviewer.
        """
        self._add_assuming_role(LOOK, f"{self._names.environment.name}-look", ("lookup",))

    def _add_assuming_role(
        self, actor: str, workflow_environment: str, role_kinds: Sequence[str]
    ) -> None:
        names, environment = self._names, self._names.environment
        construct_id = f"{'Deploy' if actor == DEPLOY else 'Look'}-{environment.name}"
        role = GitHubRole(
            self._stack,
            construct_id,
            names=names,
            actor=actor,
            workflow_environment=workflow_environment,
            provider_arn=self._provider,
            session_hours=_SESSION_HOURS[actor],
        )
        place = f"{environment.account}-{environment.region}"
        roles = [
            f"arn:aws:iam::{environment.account}:role/cdk-{_QUALIFIER}-{kind}-role-{place}"
            for kind in role_kinds
        ]
        role.allow("AssumeBootstrapRoles", ["sts:AssumeRole"], roles)
        output = construct_id.partition("-")[0] + "RoleArn" + environment.name.replace("-", "")
        cdk.CfnOutput(self._stack, output, value=role.role_arn)

    def add_promotion_role(self) -> None:
        """Add a role that may read what `shoal promote` looks at, where models are trained. It may
        change nothing.
        """
        names, environment = self._names, self._names.environment
        role = GitHubRole(
            self._stack,
            f"Promote-{environment.name}",
            names=names,
            actor=PROMOTE,
            workflow_environment=f"{environment.name}-promotion",
            provider_arn=self._provider,
            session_hours=_SESSION_HOURS[PROMOTE],
        )
        self._allow_registry(role)
        self._allow_files(role)
        role.allow(
            "LookForImages",
            ["ecr:BatchGetImage"],
            [f"arn:aws:ecr:{environment.region}:*:repository/*"],
            because=(
                "Whether an image is still there is asked of the repository that the registry"
                " names; this reads only."
            ),
        )
        cdk.CfnOutput(
            self._stack, f"PromoteRoleArn{environment.name.replace('-', '')}", value=role.role_arn
        )

    def _allow_registry(self, role: GitHubRole) -> None:
        names = self._names
        role.allow("ListPackages", ["sagemaker:ListModelPackages"], ["*"], because=ANY_PACKAGE)
        role.allow(
            "ReadRegistry",
            ["sagemaker:DescribeModelPackage"],
            [
                each.arn("sagemaker", f"model-package/{each.model_package_group}/*")
                for each in names.each
            ],
            because="Every version of this one group.",
        )
        role.allow(
            "ReadDefinitions",
            ["sagemaker:DescribePipeline", "sagemaker:DescribePipelineDefinitionForExecution"],
            [
                arn
                for each in names.each
                for arn in (each.pipeline_arn, f"{each.pipeline_arn}/execution/*")
            ],
            because="Every execution of this one pipeline.",
        )

    def _allow_files(self, role: GitHubRole) -> None:
        names, environment = self._names, self._names.environment
        assets = f"cdk-{_QUALIFIER}-assets-{environment.account}-{environment.region}"
        role.allow(
            "ReadModelsAndCode",
            ["s3:GetObject", "s3:GetObjectVersion"],
            [
                *(
                    f"arn:aws:s3:::{names.bucket('artifacts')}/{part}"
                    for part in ("models/*", "evaluation/*")
                ),
                f"arn:aws:s3:::{assets}/*",
            ],
            because=(
                "Models, evaluations and code archives carry the ids of executions and hashes in"
                " their names. Customers' requests (captured/) and checkpoints are not read."
            ),
        )
        role.allow(
            "DecryptThroughS3",
            ["kms:Decrypt"],
            [names.arn("kms", "key/*")],
            when={
                "StringEquals": {
                    "kms:ViaService": f"s3.{environment.region}.amazonaws.com",
                    # S3 names the bucket in the encryption context where bucket keys are on, as
                    # they are in ours.
                    "kms:EncryptionContext:aws:s3:arn": f"arn:aws:s3:::{names.bucket('artifacts')}",
                }
            },
            because=(
                "The id of the key is known after the first deployment only; the condition names"
                " the bucket."
            ),
        )
