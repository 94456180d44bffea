"""The model registry: model package groups, their policies, and their versions.

A group's policy says who in other accounts may use its versions.
"""

import json
from typing import ClassVar

from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core, event_detail, user_context
from shoal_local.sagemaker.errors import conflict, invalid, not_emulated
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Document

KIND = "model-package-group"


class ModelPackageGroups(Resources):
    """The model package groups of the account."""

    kind = KINDS[KIND]

    def create(self, request: Document) -> Document:
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


class ModelPackages(Resources):
    """The model package versions; no model is validated by running it."""

    kind = KINDS["model-package"]
    verbs: ClassVar[tuple[str, ...]] = (*Resources.verbs, "update")

    def __init__(self, core: Core, groups: ModelPackageGroups) -> None:
        super().__init__(core)
        self._groups = groups

    def create(self, request: Document) -> Document:
        if "ModelPackageGroupName" not in request:
            raise not_emulated("model packages without a group (unversioned)")
        group = self._groups.describe(request)["ModelPackageGroupName"]
        version = self._next_version(group)
        members = {key: value for key, value in request.items() if key != "ClientToken"}
        package = self.keep(
            {"ModelApprovalStatus": "PendingManualApproval", **members, "ModelPackageName": group},
            _name=f"{group}/{version}",
            ModelPackageGroupName=group,
            ModelPackageVersion=version,
            ModelPackageArn=f"{self._core.arn('model-package', group)}/{version}",
            ModelPackageStatus="Completed",
            ModelPackageStatusDetails={"ValidationStatuses": [], "ImageScanStatuses": []},
            CertifyForMarketplace=False,
            CreatedBy=user_context(),
        )
        self._emit(package, event_detail(package))
        return {"ModelPackageArn": package["ModelPackageArn"]}

    def _next_version(self, group: str) -> int:
        def edit(document: Document) -> None:
            document["_versions"] += 1

        return int(self._core.store.change(self._groups.kind.store, group, edit)["_versions"])

    def _entry(self, request: Document, document: Document) -> Document | None:
        group = str(request.get("ModelPackageGroupName", document["ModelPackageGroupName"]))
        group = names.name_in(self._core.context, self._groups.kind.store, group)
        approval = request.get("ModelApprovalStatus", document["ModelApprovalStatus"])
        selected = (document["ModelPackageGroupName"], document["ModelApprovalStatus"])
        return document if selected == (group, approval) else None

    def update(self, request: Document) -> Document:
        name = self.find(request["ModelPackageArn"])["_name"]

        def edit(document: Document) -> None:
            document.update(
                request | {"ModelPackageArn": document["ModelPackageArn"]},
                LastModifiedTime=names.now(),
                LastModifiedBy=user_context(),
            )

        package = self._core.store.change(self.kind.store, name, edit)
        self._emit(package, event_detail(package))
        return {"ModelPackageArn": package["ModelPackageArn"]}
