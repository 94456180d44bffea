"""CreateModelPackageGroup, DescribeModelPackageGroup, ListModelPackageGroups,
DeleteModelPackageGroup, and the policy of a group (Put-, Get-, DeleteModelPackageGroupPolicy).

The policy says who in other accounts may use its versions.
"""

from __future__ import annotations

import json

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import conflict, invalid, not_emulated
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.shapes import Document

KIND = "model-package-group"
_LISTING = Listing(
    "ModelPackageGroupSummaryList",
    "ModelPackageGroupSummary",
    "ModelPackageGroupName",
    default_order="Ascending",
)


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
        self._core.store.create(KIND, name, document, _name_in_use)
        return {"ModelPackageGroupArn": document["ModelPackageGroupArn"]}

    def describe(self, request: Document) -> Document:
        name = names.name_in(self._core.context, KIND, request["ModelPackageGroupName"])
        document = self._core.store.get(KIND, name)
        if document is None:
            arn = name if name.startswith("arn:") else self._core.arn(KIND, name)
            raise invalid(f"ModelPackageGroup {arn} does not exist.")
        return document

    def list(self, request: Document) -> Document:
        return self._core.store.listed(
            KIND, lambda all_of_them: _LISTING.page(all_of_them, request, in_order=True)
        )

    def delete(self, request: Document) -> Document:
        name = self.describe(request)["ModelPackageGroupName"]
        if self._core.store.select(
            "model-package", lambda package: bool(package.get("ModelPackageGroupName") == name)
        ):
            arn = self._core.arn("model-package-group", name)
            raise conflict(
                f"Model Package Group {arn} cannot be deleted because it still contains Model"
                " Packages."
            )
        self._core.store.delete(KIND, name)
        return {}

    def put_policy(self, request: Document) -> Document:
        """Keep the policy as it is, if it is JSON with statements."""
        group = self.describe(request)
        policy = request["ResourcePolicy"]
        _check_policy(policy)
        self._core.store.change(
            KIND, group["_name"], lambda document: document.update(_policy=policy)
        )
        return {"ModelPackageGroupArn": group["ModelPackageGroupArn"]}

    def get_policy(self, request: Document) -> Document:
        group = self.describe(request)
        if "_policy" not in group:
            raise invalid(f"Cannot find resource policy for: {group['ModelPackageGroupArn']}")
        return {"ResourcePolicy": group["_policy"]}

    def delete_policy(self, request: Document) -> Document:
        name = self.describe(request)["_name"]
        self._core.store.change(KIND, name, lambda document: document.pop("_policy", None))
        return {}


def _check_policy(policy: str) -> None:
    try:
        statements = json.loads(policy)["Statement"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise invalid(f"Invalid resource policy: {error}") from error
    for statement in statements if isinstance(statements, list) else [statements]:
        if not isinstance(statement, dict) or not {"Effect", "Principal", "Action"} <= set(
            statement
        ):
            raise invalid(
                "Invalid resource policy: each statement needs Effect, Principal and Action"
            )


def _name_in_use(existing: Document) -> AwsError:
    return invalid(f"Model Package Group already exists: {existing['ModelPackageGroupArn']}")
