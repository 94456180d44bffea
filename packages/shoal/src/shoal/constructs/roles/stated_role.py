"""A role with literal statements, each with a reason where an ARN has a wildcard."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.constructs.roles.acknowledge import acknowledge
from shoal.constructs.roles.guard_rails import ours, ours_or_missing
from shoal.settings.names import Names
from shoal.settings.parsing.statements import conditions, filled
from shoal.settings.parsing.yaml_file import read_table


@dataclass(frozen=True)
class Statement:
    """A row of statements.yaml, whose head says what the keys mean; another key is a TypeError."""

    allow: str | Sequence[str]
    resources: str | Sequence[str]
    when: Any = None
    because: str = ""


class StatedRole(iam.Role):
    """The role of one actor, whose permissions are stated one by one; its subclass decides who may
    assume it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, actor: str, **options: Any
    ) -> None:
        """`options` are those of iam.Role."""
        path = names.environment.organisation.role_path
        options |= {"role_name": names.role(actor), "path": None if path == "/" else path}
        super().__init__(scope, construct_id, **options)
        self._names = names

    def allow_part(self, part: str, **values: Any) -> None:
        """Allow the statements of `part` in statements.yaml, with these values in them.

        Raises KeyError for a value that is missing, ValueError for one that no statement names.
        """
        statements = _parts()[part]
        if unused := values.keys() - set(re.findall(r"\{(\w+)\}", str(statements))):
            raise ValueError(f"{part} in statements.yaml does not name {', '.join(sorted(unused))}")
        values = _common(self._names) | values
        for sid, row in statements.items():
            self.allow(
                sid.format_map(values),
                filled(row.allow, values),
                on=filled(row.resources, values),
                when=conditions(row.when, values),
                because=row.because.format_map(values),
            )

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
        wildcards = [resource for resource in on if "*" in resource]
        if bool(wildcards) != bool(because):
            raise ValueError(
                f"{sid}: a reason is needed for wildcards, and only for them: {wildcards}"
            )
        conditions = dict(when) if when else None
        self.add_to_policy(
            iam.PolicyStatement(sid=sid, actions=[*actions], resources=[*on], conditions=conditions)
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
        self.add_to_policy(
            iam.PolicyStatement(
                sid=sid,
                effect=iam.Effect.DENY,
                actions=[*actions],
                resources=["*"],
                conditions=dict(when) if when else None,
            )
        )


def _common(names: Names) -> dict[str, Any]:
    return {
        "region": names.environment.region,
        "account": names.environment.account,
        "pipeline": names.pipeline,
        "group": names.model_package_group,
        "data": names.bucket("data"),
        "artifacts": names.bucket("artifacts"),
        "ours": ours(names),
        "ours_or_missing": ours_or_missing(names),
    }


@cache
def _parts() -> dict[str, dict[str, Statement]]:
    parts = read_table(__file__, "statements.yaml")
    return {
        part: {sid: Statement(**row) for sid, row in rows.items()} for part, rows in parts.items()
    }
