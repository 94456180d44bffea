"""The IAM role of one actor: a service that may assume it goes in, explicit statements with literal
ARNs come out.

Why each actor has its own, and what each may do: docs/identity.md.
"""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from config.names import Names
from stacks.constructs.stated_role import StatedRole

# The keys that say on whose behalf a service acts: without them another account could make the
# service use our role.
_SOURCE_ACCOUNT = "aws:SourceAccount"
_SOURCE_ARN = "aws:SourceArn"


class ActorRole(StatedRole):
    """A role with the physical name `Names.role(actor)`, assumable by one service on behalf of this
    account only.

    `source` is the ARN, with wildcards, of what the service must act for; only where the service
    documents that it says so.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        actor: str,
        service: str,
        description: str,
        source: str | None = None,
    ) -> None:
        conditions = _trust(service, names.environment.account, source)
        super().__init__(
            scope,
            construct_id,
            role_name=names.role(actor),
            description=description,
            assumed_by=iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=conditions),
        )

    def allow_measurements(self, namespace: str) -> None:
        """Let it publish metrics to one namespace of ours."""
        self.allow(
            "Measure",
            ["cloudwatch:PutMetricData"],
            on=["*"],
            when={"StringEquals": {"cloudwatch:namespace": namespace}},
            because="PutMetricData has no resource type in IAM; the condition names the namespace.",
        )

    def deny_approval(self) -> None:
        """Whoever makes models or judges them does not approve them: neither when a version is
        registered nor later.
        """
        self.deny("NeverApprove", ["sagemaker:UpdateModelPackage"])
        # Null: a request that names no status registers the version as pending, which is what is
        # wanted.
        self.deny(
            "NeverRegisterApproved",
            ["sagemaker:CreateModelPackage"],
            when={
                "StringNotEquals": {"sagemaker:ModelApprovalStatus": "PendingManualApproval"},
                "Null": {"sagemaker:ModelApprovalStatus": "false"},
            },
        )


def _trust(service: str, account: str, source: str | None) -> dict[str, dict[str, str]]:
    # SageMaker, CodeBuild and VPC flow logs document that they send the account. Lambda does not
    # document it for execution roles: there the condition holds only if the key is present.
    operator = "StringEqualsIfExists" if service == "lambda" else "StringEquals"
    conditions = {operator: {_SOURCE_ACCOUNT: account}}
    return conditions | ({"ArnLike": {_SOURCE_ARN: source}} if source else {})
