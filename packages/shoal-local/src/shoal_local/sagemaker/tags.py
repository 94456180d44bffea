"""AddTags, ListTags, DeleteTags on any resource of the store, found by its ARN."""

from __future__ import annotations

from collections.abc import Mapping

from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, not_found
from shoal_local.sagemaker.shapes import Document

ARN_KEYS: Mapping[str, str] = {
    "training-job": "TrainingJobArn",
    "processing-job": "ProcessingJobArn",
    "transform-job": "TransformJobArn",
    "model": "ModelArn",
    "endpoint-config": "EndpointConfigArn",
    "endpoint": "EndpointArn",
    "model-package-group": "ModelPackageGroupArn",
    "model-package": "ModelPackageArn",
    "pipeline": "PipelineArn",
    "pipeline-execution": "PipelineExecutionArn",
}
"""Kinds that can be tagged, and the key of each one's ARN."""
_MAX_TAGS = 50


class Tags:
    """Tags of the documents: `_tags`, a list of Key/Value as the API has it."""

    def __init__(self, core: Core) -> None:
        self._store = core.store

    def _find(self, arn: str) -> tuple[str, str]:
        """Return the kind and the name of a resource, both of which are in its ARN."""
        kind, _, name = arn.lower().rpartition(":")[2].partition("/")
        if kind == "pipeline" and "/execution/" in name:
            kind, name = "pipeline-execution", name.replace("/execution/", "/", 1)
        key = ARN_KEYS.get(kind, "")
        found = self._store.view(
            kind, name, lambda each: (each.get(key, "").lower(), each["_name"])
        )
        if not key or found is None or found[0] != arn.lower():
            raise not_found(f"Resource {arn} does not exist.")
        return kind, found[1]

    def add(self, request: Document) -> Document:
        kind, name = self._find(request["ResourceArn"])
        merged: dict[str, str] = {}

        def edit(document: Document) -> None:
            merged.update(
                {tag["Key"]: tag["Value"] for tag in [*document.get("_tags", []), *request["Tags"]]}
            )
            if len(merged) > _MAX_TAGS:
                raise invalid(f"A resource can have at most {_MAX_TAGS} tags")
            document["_tags"] = [{"Key": key, "Value": value} for key, value in merged.items()]

        return {"Tags": self._store.change(kind, name, edit)["_tags"]}

    def list(self, request: Document) -> Document:
        kind, name = self._find(request["ResourceArn"])
        return {
            "Tags": self._store.view(kind, name, lambda each: list(each.get("_tags", []))) or []
        }

    def delete(self, request: Document) -> Document:
        kind, name = self._find(request["ResourceArn"])

        def edit(document: Document) -> None:
            document["_tags"] = [
                tag for tag in document.get("_tags", []) if tag["Key"] not in request["TagKeys"]
            ]

        self._store.change(kind, name, edit)
        return {}
