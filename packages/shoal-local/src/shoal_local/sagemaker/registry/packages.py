"""CreateModelPackage, DescribeModelPackage, ListModelPackages, UpdateModelPackage,
DeleteModelPackage.
"""

from __future__ import annotations

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.caller import user_context
from shoal_local.sagemaker.core import Core, event_detail
from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.registry import groups
from shoal_local.sagemaker.shapes import Document

KIND = "model-package"
_LISTING = Listing(
    "ModelPackageSummaryList",
    "ModelPackageSummary",
    "ModelPackageArn",
    "ModelPackageStatus",
    default_order="Ascending",
    extra_filters=frozenset({"ModelPackageGroupName", "ModelApprovalStatus", "ModelPackageType"}),
)
_UPDATABLE = (
    "ModelApprovalStatus",
    "ApprovalDescription",
    "CustomerMetadataProperties",
    "ModelLifeCycle",
    "SourceUri",
)


class ModelPackages:
    """The model package versions of the account.

    No model is validated by running it; SkipModelValidation is only kept.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    def create(self, request: Document) -> Document:
        if "ModelPackageGroupName" not in request:
            raise not_emulated("model packages without a group (unversioned)")
        if "ValidationSpecification" in request or request.get("CertifyForMarketplace"):
            raise not_emulated("the validation of model packages")
        group = groups.ModelPackageGroups(self._core).describe(request)["ModelPackageGroupName"]
        version = self._next_version(group)
        document = self._document(request, group, version)
        self._core.store.create(KIND, document["_name"], document, _name_in_use)
        self._emit(document)
        return {"ModelPackageArn": document["ModelPackageArn"]}

    def _next_version(self, group: str) -> int:
        def edit(document: Document) -> None:
            document["_versions"] += 1

        return int(self._core.store.change(groups.KIND, group, edit)["_versions"])

    def _document(self, request: Document, group: str, version: int) -> Document:
        members = {
            key: value
            for key, value in request.items()
            if key not in {"Tags", "ClientToken", "ModelPackageName"}
        }
        return members | {
            "_name": f"{group}/{version}",
            "_tags": request.get("Tags", []),
            "ModelPackageName": group,
            "ModelPackageGroupName": group,
            "ModelPackageVersion": version,
            "ModelPackageArn": f"{self._core.arn('model-package', group)}/{version}",
            "ModelPackageStatus": "Completed",
            "ModelPackageStatusDetails": {"ValidationStatuses": [], "ImageScanStatuses": []},
            "ModelApprovalStatus": request.get("ModelApprovalStatus", "PendingManualApproval"),
            "CertifyForMarketplace": False,
            "CreationTime": names.now(),
            "CreatedBy": user_context(),
        }

    def _find(self, name_or_arn: str) -> Document:
        for package in self._core.store.select(
            KIND, lambda each: name_or_arn in {each["ModelPackageArn"], each["_name"]}
        ):
            return package
        raise invalid(f"ModelPackage {name_or_arn} does not exist.")

    def describe(self, request: Document) -> Document:
        return self._find(request["ModelPackageName"])

    def list(self, request: Document) -> Document:
        group = names.name_in(
            self._core.context, groups.KIND, request.get("ModelPackageGroupName", "")
        )
        approval = request.get("ModelApprovalStatus")

        def entry(package: Document) -> Document | None:
            in_group = not group or package["ModelPackageGroupName"] == group
            has_status = not approval or package["ModelApprovalStatus"] == approval
            return package if in_group and has_status else None

        return self._core.store.listed(
            KIND, lambda packages: _LISTING.page(packages, request, entry, in_order=True)
        )

    def update(self, request: Document) -> Document:
        unknown = set(request) - {"ModelPackageArn", *_UPDATABLE}
        if unknown:
            raise not_emulated(f"UpdateModelPackage with {sorted(unknown)[0]}")
        package = self._find(request["ModelPackageArn"])
        changes = {key: request[key] for key in _UPDATABLE if key in request}

        def edit(document: Document) -> None:
            document.update(changes, LastModifiedTime=names.now(), LastModifiedBy=user_context())

        self._emit(self._core.store.change(KIND, package["_name"], edit))
        return {"ModelPackageArn": package["ModelPackageArn"]}

    def delete(self, request: Document) -> Document:
        self._core.store.delete(KIND, self._find(request["ModelPackageName"])["_name"])
        return {}

    def _emit(self, document: Document) -> None:
        self._core.emit(
            "SageMaker Model Package State Change",
            event_detail(document),
            document["ModelPackageArn"],
        )


def _name_in_use(existing: Document) -> AwsError:
    return invalid(f"Model package version already exists: {existing['ModelPackageArn']}")
