"""CreateModelPackageGroup, DescribeModelPackageGroup, ListModelPackageGroups,
DeleteModelPackageGroup, and the policy of a group (Put-, Get-, DeleteModelPackageGroupPolicy).

The policy says who in other accounts may use its versions.
"""

from __future__ import annotations

import json

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import conflict, invalid, refuse_fields
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Document

KIND = "model-package-group"


class ModelPackageGroups(Resources):
    """The model package groups of the account."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, KINDS[KIND])

    def create(self, request: Document) -> Document:
        refuse_fields("CreateModelPackageGroup", request)
        group = self.keep(request, _versions=0, ModelPackageGroupStatus="Completed", CreatedBy={})
        return {"ModelPackageGroupArn": group["ModelPackageGroupArn"]}

    def delete(self, request: Document) -> Document:
        group = self.describe(request)
        name, arn = group["ModelPackageGroupName"], group["ModelPackageGroupArn"]
        if self._core.store.select(
            "model-package", lambda package: bool(package["ModelPackageGroupName"] == name)
        ):
            raise conflict(
                f"Model Package Group {arn} cannot be deleted because it still contains Model"
                " Packages."
            )
        return super().delete(request)

    def put_policy(self, request: Document) -> Document:
        """Keep the policy as it is, if it is JSON with statements."""
        group, policy = self.describe(request), request["ResourcePolicy"]
        _check_policy(policy)
        self._core.store.change(KIND, group["_name"], lambda each: each.update(_policy=policy))
        return {"ModelPackageGroupArn": group["ModelPackageGroupArn"]}

    def get_policy(self, request: Document) -> Document:
        group = self.describe(request)
        if "_policy" not in group:
            raise invalid(f"Cannot find resource policy for: {group['ModelPackageGroupArn']}")
        return {"ResourcePolicy": group["_policy"]}

    def delete_policy(self, request: Document) -> Document:
        name = self.describe(request)["_name"]
        self._core.store.change(KIND, name, lambda each: each.pop("_policy", None))
        return {}


def _check_policy(policy: str) -> None:
    try:
        statements = json.loads(policy)["Statement"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise invalid(f"Invalid resource policy: {error}") from error
    for each in statements if isinstance(statements, list) else [statements]:
        if not isinstance(each, dict) or not {"Effect", "Principal", "Action"} <= set(each):
            raise invalid(
                "Invalid resource policy: each statement needs Effect, Principal and Action"
            )
