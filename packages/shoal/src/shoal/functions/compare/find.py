"""Finds the approved model that scores.

The Lambda step sends `model_package_group_name` and `version`, a number or `newest`. It gets
`version` and `model_package_arn`; without such a version that is approved, the step fails.
"""

from typing import Any

import boto3


class FindError(Exception):
    """No version may score."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return the version that was asked for, if it is approved."""
    group, wanted = event["model_package_group_name"], str(event["version"])
    pages = boto3.client("sagemaker").get_paginator("list_model_packages")
    approved = {
        int(entry["ModelPackageVersion"]): str(entry["ModelPackageArn"])
        for page in pages.paginate(ModelPackageGroupName=group, ModelApprovalStatus="Approved")
        for entry in page["ModelPackageSummaryList"]
    }
    version = max(approved, default=0) if wanted == "newest" else int(wanted)
    if version not in approved:
        known = ", ".join(map(str, sorted(approved))) or "none"
        raise FindError(f"{group} has no approved version {wanted}; approved: {known}")
    return {"version": str(version), "model_package_arn": approved[version]}
