"""An AWS CodePipeline that builds itself and then deploys the environments, one after the other.

It exists only where an environment's file has `delivery.connection_arn`; GitHub's workflows
(.github/workflows) are the usual way. It deploys the same stages as `cdk deploy`, so an environment
can change from one way to the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import pipelines
from constructs import Construct, IConstruct

from config.settings import Environment
from stacks.constructs.acknowledge import acknowledge

CLI_VERSION = "2.1148.1"
_SOURCE = "Source"
_OWN = "Logs and reports of the builds of this pipeline, whose names CodeBuild makes up."


class ReleasePipelineStack(cdk.Stack):
    """`environments` are in the order in which they take releases from each other. The pipeline
    lies in the account of the first.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environments: Sequence[tuple[Environment, cdk.Stage]],
        env: cdk.Environment,
    ) -> None:
        first, _ = environments[0]
        super().__init__(
            scope, construct_id, stack_name=f"shoal-{first.project}-release-pipeline", env=env
        )
        if first.delivery is None or first.delivery.connection_arn is None:
            raise ValueError(f"environment {first.name} has no delivery.connection_arn")
        self._project, self._connection = first.project, first.delivery.connection_arn
        self._bucket = self._artifacts()
        self._pipeline = self._pipeline_from(
            re.sub(r"@\d+", "", first.delivery.repository), first.delivery.branch
        )
        for environment, stage in environments:
            before = (
                [pipelines.ManualApprovalStep(f"Release-{environment.name}")]
                if environment.promoted_from
                else []
            )
            self._pipeline.add_stage(stage, pre=before)
        self._pipeline.build_pipeline()
        self._use_connection()
        self._trust_this_account()
        acknowledge(
            self,
            {f"AwsSolutions-IAM5[{finding}]": why for finding, why in self._wildcards().items()},
        )

    def _pipeline_from(self, repository: str, branch: str) -> pipelines.CodePipeline:
        source = pipelines.CodePipelineSource.connection(
            repository, branch, connection_arn=self._connection, action_name=_SOURCE
        )
        synth = pipelines.ShellStep("Synth", input=source, commands=["make synth"])
        code_pipeline = codepipeline.Pipeline(
            self,
            "Releases",
            pipeline_name=f"shoal-{self._project}-releases",
            pipeline_type=codepipeline.PipelineType.V2,
            restart_execution_on_update=True,
            artifact_bucket=self._bucket,
        )
        return pipelines.CodePipeline(
            self,
            "Pipeline",
            synth=synth,
            code_pipeline=code_pipeline,
            cli_version=CLI_VERSION,
            code_build_defaults=pipelines.CodeBuildOptions(
                build_environment=codebuild.BuildEnvironment(
                    build_image=codebuild.LinuxBuildImage.STANDARD_7_0
                )
            ),
        )

    def _artifacts(self) -> s3.Bucket:
        """Return the bucket of what one action hands to the next: the deploying roles of every
        account read it, and it is deleted after a month.
        """
        key = kms.Key(
            self,
            "Key",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.DESTROY,
            pending_window=cdk.Duration.days(7),
        )
        bucket = s3.Bucket(
            self,
            "Artifacts",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=cdk.Duration.days(30),
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
                )
            ],
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        acknowledge(
            bucket,
            {
                "AwsSolutions-S1": (
                    "Source and templates on their way through the pipeline, gone after a month;"
                    " git has them."
                )
            },
        )
        return bucket

    def _use_connection(self) -> None:
        """Allow the connection under its new name as well.

        aws-cdk-lib 2.275 allows the source only `codestar-connections:UseConnection`; ARNs of
        today's connections need the new name.
        """
        role = self._role_below("Releases", "Source", _SOURCE, "CodePipelineActionRole")
        role.add_to_principal_policy(
            iam.PolicyStatement(
                sid="UseConnection",
                actions=["codeconnections:UseConnection"],
                resources=[self._connection],
            )
        )

    def _role_below(self, *path: str) -> iam.Role:
        """Return a role that CDK Pipelines created, by its place in the tree."""
        construct: IConstruct = self
        for part in path:
            construct = construct.node.find_child(part)
        if not isinstance(construct, iam.Role):
            raise TypeError(f"{construct.node.path} is no role")
        return construct

    def _trust_this_account(self) -> None:
        """Limit the roles' trust to this account: CDK Pipelines names only the service.

        CodeBuild documents `aws:SourceAccount` for its roles' trust, CodePipeline does not.
        """
        for role in (each for each in self.node.find_all() if isinstance(each, iam.CfnRole)):
            statements = self.resolve(role.assume_role_policy_document)["Statement"]
            for number, statement in enumerate(statements):
                if statement["Principal"].get("Service") == "codebuild.amazonaws.com":
                    key = f"AssumeRolePolicyDocument.Statement.{number}.Condition"
                    role.add_property_override(
                        key, {"StringEquals": {"aws:SourceAccount": self.account}}
                    )
        why = (
            "CodePipeline's pages name no key that says on whose behalf it acts; the role may use"
            " this pipeline's bucket and actions only."
        )
        acknowledge(self._role_below("Releases", "Role"), {"Shoal::SHOAL-RoleTrust": why})

    def _wildcards(self) -> dict[str, str]:
        """Return the wildcards that CDK Pipelines allows its roles, each with our reason. It offers
        no narrower form.
        """
        bucket = self.get_logical_id(self._bucket.node.default_child)  # type: ignore[arg-type]
        actions = (
            "s3:Abort*",
            "s3:DeleteObject*",
            "s3:GetBucket*",
            "s3:GetObject*",
            "s3:List*",
            "kms:GenerateDataKey*",
            "kms:ReEncrypt*",
        )
        reasons = {
            f"Action::{action}": (
                "On the pipeline's own bucket and key, as aws-cdk-lib's grants write it."
            )
            for action in actions
        }
        reasons[f"Resource::<{bucket}.Arn>/*"] = (
            "Every artifact of this one pipeline; CodePipeline makes up their names."
        )
        reasons[f"Resource::arn:*:iam::{self.account}:role/*"] = (
            "Only the bootstrap's roles: a condition asks for their tag."
        )
        reasons["Resource::*"] = (
            "The assets' role assumes the bootstrap's roles; the self-update asks for its stack and"
            " lists buckets."
        )
        for kind, name in (("report-group", "*"), ("log-group", "/aws/codebuild/*")):
            service = "codebuild" if kind == "report-group" else "logs"
            reasons[
                f"Resource::arn:aws:{service}:{self.region}:{self.account}:{kind}{'/' if kind == 'report-group' else ':'}{name}"  # noqa: E501
            ] = _OWN
        for project in (
            each for each in self.node.find_all() if isinstance(each, codebuild.CfnProject)
        ):
            identity = self.get_logical_id(project)
            reasons[
                f"Resource::arn:aws:logs:{self.region}:{self.account}:log-group:/aws/codebuild/<{identity}>:*"
            ] = _OWN
            reasons[
                f"Resource::arn:aws:codebuild:{self.region}:{self.account}:report-group/<{identity}>-*"
            ] = _OWN
        return reasons
