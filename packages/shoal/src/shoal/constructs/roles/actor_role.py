"""The IAM role of one actor: one service may assume it, and its statements name literal ARNs.

See docs/identity.md for why each actor has its own role, and what each may do.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.constructs.roles.stated_role import StatedRole
from shoal.settings.names import Names

# The keys that say on whose behalf a service acts: without them another account could make the
# service use our role.
_SOURCE_ACCOUNT = "aws:SourceAccount"
_SOURCE_ARN = "aws:SourceArn"


class ActorRole(StatedRole):
    """A role that one service may assume, on behalf of this account only.

    `source` is the ARN, with wildcards, of what the service must act for. Give it only where the
    service documents that it sends this ARN.
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
        self._service, self._account = service, names.environment.account
        self._principal = iam.ServicePrincipal(f"{service}.amazonaws.com")
        conditions = _trust(service, self._account, source)
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor=actor,
            description=description,
            assumed_by=iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=conditions),
        )

    def trust_for(self, source: str) -> None:
        """Let the service assume it for what has this ARN, too."""
        self.assume_role_policy.add_statements(
            iam.PolicyStatement(
                actions=["sts:AssumeRole"],
                principals=[self._principal],
                conditions=_trust(self._service, self._account, source),
            )
        )

    def allow_secrets_and_index(self, secrets: Iterable[str] = ()) -> None:
        """Allow reading `secrets`, and what the organisation's package index takes."""
        index = self._names.environment.organisation.package_index
        if index and index.codeartifact:
            self.allow_part("package-index", repository=index.codeartifact, domain=index.domain_arn)
        if read := {*secrets, *filter(None, [index.secret if index else None])}:
            self.allow_part("secrets", secrets=sorted(read))

    def deny_approval(self) -> None:
        """Deny approving model versions, when they are registered and later: what makes or judges
        models does not approve them.
        """
        self.deny("NeverApprove", ["sagemaker:UpdateModelPackage"])
        # Null: a request that names no status registers the version as pending, as it should.
        when = {
            "StringNotEquals": {"sagemaker:ModelApprovalStatus": "PendingManualApproval"},
            "Null": {"sagemaker:ModelApprovalStatus": "false"},
        }
        self.deny("NeverRegisterApproved", ["sagemaker:CreateModelPackage"], when=when)


def _trust(service: str, account: str, source: str | None) -> dict[str, dict[str, str]]:
    # SageMaker, CodeBuild and VPC flow logs document that they send the account. Lambda does not
    # document it for execution roles: there the condition holds only if the key is present.
    operator = "StringEqualsIfExists" if service == "lambda" else "StringEquals"
    conditions = {operator: {_SOURCE_ACCOUNT: account}}
    return conditions | ({"ArnLike": {_SOURCE_ARN: source}} if source else {})
