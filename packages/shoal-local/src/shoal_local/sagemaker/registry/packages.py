"""CreateModelPackage, DescribeModelPackage, ListModelPackages, UpdateModelPackage,
DeleteModelPackage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from shoal_local.sagemaker import names
from shoal_local.sagemaker.caller import user_context
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.errors import not_emulated
from shoal_local.sagemaker.registry.groups import ModelPackageGroups
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Document

_UPDATABLE = (
    "ModelApprovalStatus",
    "ApprovalDescription",
    "CustomerMetadataProperties",
    "ModelLifeCycle",
    "SourceUri",
)


class ModelPackages(Resources):
    """The model package versions of the account.

    No model is validated by running it; SkipModelValidation is only kept.
    """

    verbs: ClassVar[tuple[str, ...]] = (*Resources.verbs, "update")

    def __init__(self, core: Core, groups: ModelPackageGroups) -> None:
        super().__init__(core, KINDS["model-package"])
        self._groups = groups

    def create(self, request: Document) -> Document:
        if "ModelPackageGroupName" not in request:
            raise not_emulated("model packages without a group (unversioned)")
        if "ValidationSpecification" in request or request.get("CertifyForMarketplace"):
            raise not_emulated("the validation of model packages")
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

    def find(self, name_or_arn: str) -> Document:
        for package in self._core.store.select(
            self.kind.store, lambda each: name_or_arn in {each["ModelPackageArn"], each["_name"]}
        ):
            return package
        raise self._error(self.kind.missing, name_or_arn, "")

    def list(
        self,
        request: Document,
        entry: Callable[[Document], Document | None] = lambda document: document,
    ) -> Document:
        group, approval = request.get("ModelPackageGroupName"), request.get("ModelApprovalStatus")
        group = names.name_in(self._core.context, self._groups.kind.store, group or "")

        def selected(package: Document) -> Document | None:
            in_group = not group or package["ModelPackageGroupName"] == group
            has_status = not approval or package["ModelApprovalStatus"] == approval
            return package if in_group and has_status else None

        return super().list(request, selected)

    def update(self, request: Document) -> Document:
        unknown = set(request) - {"ModelPackageArn", *_UPDATABLE}
        if unknown:
            raise not_emulated(f"UpdateModelPackage with {sorted(unknown)[0]}")
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
