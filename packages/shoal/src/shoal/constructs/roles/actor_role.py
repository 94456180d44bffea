"""The IAM role of one actor, whose statements name literal ARNs;
SageMaker's own; and findings that are accepted, each with its reason. See docs/identity.md for why
each actor has its own role, and what each may do.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.constructs.roles.guard_rails import Place, ours, ours_or_missing
from shoal.launch.image_uri import ECR_IMAGE
from shoal.settings.names import Names
from shoal.settings.parsing.yaml_file import conditions, filled, read_table

RAW_FINDINGS = "shoal:raw-findings"
"""Context key that shows all findings, acknowledged or not: for the report of every finding, and
for the search for stale reasons.
"""
NOT_APPLIED = "shoal:acknowledged"
"""Metadata in the cloud assembly that then says what would have been acknowledged where."""
_VALIDATIONS: WeakKeyDictionary[Construct, cdk.Validations | None] = WeakKeyDictionary()
"""Validations by construct; None where findings must not be acknowledged. Roles need theirs for
each statement, and each look-up takes three messages to Node.js.
"""


def acknowledge(scope: Construct, reasons: Mapping[str, str]) -> None:
    """Accept findings (id as cdk-nag prints it -> reason) on `scope` and everything below it."""
    if not reasons:
        return
    if scope not in _VALIDATIONS:
        _VALIDATIONS[scope] = (
            None if scope.node.try_get_context(RAW_FINDINGS) else cdk.Validations.of(scope)
        )
    validations = _VALIDATIONS[scope]
    if validations is None:
        scope.node.add_metadata(NOT_APPLIED, dict(reasons))
        return
    validations.acknowledge(
        *[cdk.Acknowledgment(id=finding, reason=reason) for finding, reason in reasons.items()]
    )


@dataclass(frozen=True)
class Statement:
    """A row of statements.yaml, whose head says what the keys mean; another key is a TypeError."""

    allow: str | Sequence[str] = ()
    deny: str | Sequence[str] = ()
    resources: str | Sequence[str] = ()
    when: Any = None
    because: str = ""


class StatedRole(iam.Role):
    """The role of one actor, whose permissions are stated one by one."""

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, actor: str, **options: Any
    ) -> None:
        """`options` are those of iam.Role, which say who may assume it."""
        path = names.environment.organisation.role_path
        options |= {"role_name": names.role(actor), "path": None if path == "/" else path}
        super().__init__(scope, construct_id, **options)
        self._names = names

    def allow_part(self, part: str, **values: Any) -> None:
        """Allow the statements of `part`, as `statements` returns them."""
        for because, statement in statements(part, self._names, values):
            self._allow(iam.PolicyStatement(**statement), because)

    def allow_list(self, buckets: Collection[str], folders: Collection[str]) -> None:
        """Allow listing what lies in folders of buckets: models that are kept as files."""
        prefixes = [f"{folder}/*" for folder in sorted(folders)]
        self.allow_part("list-files", buckets=sorted(buckets), prefixes=prefixes)

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
        conditions = dict(when) if when else None
        self._allow(
            iam.PolicyStatement(
                sid=sid, actions=[*actions], resources=[*on], conditions=conditions
            ),
            because,
        )

    def _allow(self, statement: iam.PolicyStatement, because: str) -> None:
        wildcards = [resource for resource in statement.resources if "*" in resource]
        if bool(wildcards) != bool(because):
            raise ValueError(
                f"{statement.sid}: a reason is needed for wildcards, and only for them: {wildcards}"
            )
        self.add_to_policy(statement)
        acknowledge(
            self, {f"AwsSolutions-IAM5[Resource::{resource}]": because for resource in wildcards}
        )

    def deny_part(self, part: str, **values: Any) -> None:
        """Deny the statements of `part`, whatever else allows them, now or later."""
        for _, statement in statements(part, self._names, values):
            self.add_to_policy(iam.PolicyStatement(**statement))


@cache
def _parts() -> dict[str, dict[str, Statement]]:
    parts = read_table(__file__, "statements.yaml")
    return {
        part: {sid: Statement(**row) for sid, row in rows.items()} for part, rows in parts.items()
    }


def statements(
    part: str, names: Names, values: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the statements of `part` in statements.yaml, with these values in them: the reason, and
    the arguments of iam.PolicyStatement.

    Raises KeyError for a value that is missing, ValueError for one that no statement names.
    """
    rows = _parts()[part]
    if unused := values.keys() - set(re.findall(r"\{(\w+)\}", str(rows))):
        raise ValueError(f"{part} in statements.yaml does not name {', '.join(sorted(unused))}")
    common = {
        "region": names.environment.region,
        "account": names.environment.account,
        "pipeline": names.pipeline,
        "group": names.model_package_group,
        "data": names.bucket("data"),
        "artifacts": names.bucket("artifacts"),
        "ours": ours(names),
        "ours_or_missing": ours_or_missing(names),
    }
    values = common | {**values}
    for sid, row in rows.items():
        yield (
            row.because.format_map(values),
            {
                "sid": sid.format_map(values),
                "effect": iam.Effect.DENY if row.deny else iam.Effect.ALLOW,
                "actions": filled(row.allow or row.deny, values),
                "resources": filled(row.resources, values),
                "conditions": conditions(row.when, values),
            },
        )


def resource_policy(
    part: str, names: Names, *principals: iam.IPrincipal, **values: Any
) -> list[iam.PolicyStatement]:
    """Return the statements of `part` for the policy of a resource."""
    return [
        iam.PolicyStatement(**statement, principals=[*principals])
        for _, statement in statements(part, names, values)
    ]


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
        trust = _trust(service, self._account, source)
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor=actor,
            description=description,
            assumed_by=self._principal.with_conditions(trust),
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


def _trust(service: str, account: str, source: str | None) -> dict[str, dict[str, str]]:
    """Return for whom the service must act: else another account could make it use our role."""
    # SageMaker, CodeBuild and VPC flow logs document that they send the account. Lambda does not
    # document it for execution roles: there the condition holds only if the key is present.
    operator = "StringEqualsIfExists" if service == "lambda" else "StringEquals"
    conditions = {operator: {"aws:SourceAccount": account}}
    return conditions | ({"ArnLike": {"aws:SourceArn": source}} if source else {})


class SageMakerRole(ActorRole):
    """Source: SageMaker developer guide, "SageMaker roles", the execution role permissions of
    each Create call.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        actor: str,
        log_group: str,
        source: str,
        description: str,
        streams: str = "*",
        endpoint: str = "",
    ) -> None:
        """`source` is the resource for which SageMaker acts, such as training-job/*; it logs to
        `log_group` below /aws/sagemaker/, and begins a stream's name with `streams`. An endpoint
        has a group of its own: `endpoint` is its name, or a pattern.
        """
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor=actor,
            service="sagemaker",
            description=description,
            source=names.arn("sagemaker", source),
        )
        # SageMaker developer guide, "Log groups and streams that Amazon SageMaker AI sends to
        # Amazon CloudWatch Logs".
        group = f"log-group:/aws/sagemaker/{log_group}" + (f"/{endpoint}" if endpoint else "*")
        self.allow_part(
            "sagemaker",
            purpose=log_group,
            log_group=group,
            streams=streams,
            ends=[""] if group.endswith("*") else ["", ":*"],
            what="streams" if endpoint else "groups and streams",
        )

    def allow_pull(self, images: Iterable[str]) -> None:
        """Allow pulling `images`, and from no other repository. An image outside ECR needs no
        permission.
        """
        if repositories := repository_arns(images):
            self.allow_part("pull", repositories=repositories)

    def allow_interfaces(self, place: Place) -> None:
        """Allow creating network interfaces in this place only, and what follows on them.

        With `network.tie_interfaces` that is allowed in this place's VPC only. It is not the
        default: SageMaker checks the role before a job starts, and its guide lists these actions
        without conditions (and says for processing jobs that one makes the check fail).
        """
        tied = self._names.environment.network.tie_interfaces
        vpc = {"ArnEquals": {"ec2:Vpc": self._names.arn("ec2", f"vpc/{place.vpc.vpc_id}")}}
        self.allow_part(
            "interfaces",
            subnets=place.subnet_ids,
            security_groups=place.security_group_ids,
            in_vpc=vpc if tied else None,
            named=" The condition names the VPC." if tied else "",
        )


def repository_arns(images: Iterable[str]) -> list[str]:
    """Return the ARNs of the ECR repositories of image URIs such as
    `763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0`.
    """
    arn = "arn:aws:ecr:{region}:{account}:repository/{repository}"
    matches = filter(None, map(ECR_IMAGE.match, images))
    return sorted({arn.format_map(match.groupdict()) for match in matches})
