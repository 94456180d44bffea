"""CreateModelPackageGroup, DescribeModelPackageGroup, ListModelPackageGroups, DeleteModelPackageGroup."""

from __future__ import annotations

from emulator.errors import AwsError
from emulator.sagemaker import names
from emulator.sagemaker.core import Core
from emulator.sagemaker.listing import Listing
from emulator.sagemaker.refusals import conflict, invalid, not_emulated
from emulator.sagemaker.shapes import Document

KIND = "model-package-group"
_LISTING = Listing("ModelPackageGroupSummaryList", "ModelPackageGroupSummary", "ModelPackageGroupName")


class ModelPackageGroups:
    """The model package groups of the account."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def create(self, request: Document) -> Document:
        if "ManagedConfiguration" in request:
            raise not_emulated("ModelPackageGroup.ManagedConfiguration")
        name = request["ModelPackageGroupName"]
        document = {key: value for key, value in request.items() if key != "Tags"} | {
            "_name": name,
            "_tags": request.get("Tags", []),
            "_versions": 0,
            "ModelPackageGroupArn": self._core.arn("model-package-group", name),
            "ModelPackageGroupStatus": "Completed",
            "CreationTime": names.now(),
            "CreatedBy": {},
        }
        self._core.store.create(KIND, name, document, _taken)
        return {"ModelPackageGroupArn": document["ModelPackageGroupArn"]}

    def describe(self, request: Document) -> Document:
        name = names.last_part(request["ModelPackageGroupName"])
        document = self._core.store.get(KIND, name)
        if document is None:
            raise invalid(f"ModelPackageGroup {self._core.arn('model-package-group', name)} does not exist.")
        return document

    def list(self, request: Document) -> Document:
        return _LISTING.page(self._core.store.all(KIND), request)

    def delete(self, request: Document) -> Document:
        name = self.describe(request)["ModelPackageGroupName"]
        if any(package.get("ModelPackageGroupName") == name for package in self._core.store.all("model-package")):
            arn = self._core.arn("model-package-group", name)
            raise conflict(f"Model Package Group {arn} cannot be deleted because it still contains Model Packages.")
        self._core.store.delete(KIND, name)
        return {}


def _taken(existing: Document) -> AwsError:
    return invalid(f"Model Package Group already exists: {existing['ModelPackageGroupArn']}")
