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
    "mlflow-tracking-server": "TrackingServerArn",
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
        for kind, key in ARN_KEYS.items():
            for document in self._store.select(
                kind,
                lambda each, key=key: each[key].lower() == arn.lower(),  # type: ignore[misc]
            ):
                return kind, document["_name"]
        raise not_found(f"Resource {arn} does not exist.")

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
        return {"Tags": (self._store.get(kind, name) or {}).get("_tags", [])}

    def delete(self, request: Document) -> Document:
        kind, name = self._find(request["ResourceArn"])

        def edit(document: Document) -> None:
            document["_tags"] = [
                tag for tag in document.get("_tags", []) if tag["Key"] not in request["TagKeys"]
            ]

        self._store.change(kind, name, edit)
        return {}
