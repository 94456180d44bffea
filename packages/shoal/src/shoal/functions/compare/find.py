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
    group, name = event["model_package_group_name"], str(event["version"])
    approved = approved_versions(boto3.client("sagemaker"), group)
    version = max(approved, default=0) if name == "newest" else int(name)
    if version not in approved:
        known = ", ".join(map(str, sorted(approved))) or "none"
        raise FindError(f"{group} has no approved version {name}; approved: {known}")
    return {"version": str(version), "model_package_arn": approved[version]}


def approved_versions(sagemaker: Any, group: str) -> dict[int, str]:
    """Return the ARN of each approved version, by its number."""
    pages = sagemaker.get_paginator("list_model_packages")
    return {
        int(entry["ModelPackageVersion"]): str(entry["ModelPackageArn"])
        for page in pages.paginate(ModelPackageGroupName=group, ModelApprovalStatus="Approved")
        for entry in page["ModelPackageSummaryList"]
    }
