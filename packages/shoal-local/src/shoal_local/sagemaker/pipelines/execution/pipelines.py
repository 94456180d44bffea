"""CreatePipeline, UpdatePipeline, DescribePipeline, ListPipelines, DeletePipeline."""

from __future__ import annotations

from typing import ClassVar

from shoal_local.sagemaker import names
from shoal_local.sagemaker.errors import check_fields, conflict
from shoal_local.sagemaker.pipelines.definition.arguments import check_arguments
from shoal_local.sagemaker.pipelines.definition.definition import parse
from shoal_local.sagemaker.pipelines.execution import records
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Document

KIND = "pipeline"
_KEPT = ("PipelineDisplayName", "PipelineDescription", "RoleArn", "ParallelismConfiguration")


class Pipelines(Resources):
    """The pipelines of the account.

    A definition that the emulator could not run is refused.
    """

    kind = KINDS[KIND]
    verbs: ClassVar[tuple[str, ...]] = (*Resources.verbs, "update")

    def create(self, request: Document) -> Document:
        check_fields("CreatePipeline", request)
        text = request["PipelineDefinition"]
        check_arguments(parse(text))
        name, token = request["PipelineName"], request["ClientRequestToken"]
        existing = self._core.store.get(KIND, name)
        if existing is None or existing["_token"] != token:
            kept = {key: request[key] for key in ("Tags", *_KEPT) if key in request}
            existing = self.keep(
                {"PipelineName": name, "PipelineDisplayName": name, **kept},
                _name=name.lower(),
                _token=token,
                PipelineDefinition=text,
                PipelineStatus="Active",
                CreatedBy={},
                LastModifiedBy={},
            )
        return {"PipelineArn": existing["PipelineArn"]}

    def update(self, request: Document) -> Document:
        check_fields("UpdatePipeline", request)
        document = self.find(request["PipelineName"])
        changed_keys = ("PipelineDefinition", *_KEPT)
        changes: Document = {key: request[key] for key in changed_keys if key in request}
        if "PipelineDefinition" in changes:
            check_arguments(parse(changes["PipelineDefinition"]))
        self._core.store.change(
            KIND, document["_name"], lambda each: each.update(changes, LastModifiedTime=names.now())
        )
        return {"PipelineArn": document["PipelineArn"]}

    def describe(self, request: Document) -> Document:
        check_fields("DescribePipeline", request)
        return self.find(request["PipelineName"])

    def _entry(self, request: Document, document: Document) -> Document | None:
        if not document["PipelineName"].startswith(request.get("PipelineNamePrefix", "")):
            return None
        ran_at = document.get("LastRunTime")
        return document | ({"LastExecutionTime": ran_at} if ran_at else {})

    def delete(self, request: Document) -> Document:
        document = self.find(request["PipelineName"])
        executions = self._core.store.select(
            records.KIND, lambda each: bool(each["PipelineArn"] == document["PipelineArn"])
        )
        if any(each["PipelineExecutionStatus"] not in records.TERMINAL for each in executions):
            raise conflict(
                f"Pipeline {document['PipelineArn']} has executions that are still running; stop"
                " them first."
            )
        for each in executions:
            self._core.store.delete(records.KIND, each["_name"])
        self._core.store.delete(KIND, document["_name"])
        return {"PipelineArn": document["PipelineArn"]}
