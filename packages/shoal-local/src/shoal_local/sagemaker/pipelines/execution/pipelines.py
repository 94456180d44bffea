"""CreatePipeline, UpdatePipeline, DescribePipeline, ListPipelines, DeletePipeline.

A pipeline is refused if its run would refuse a step's arguments. A parameter counts with its
default. At a value that only the run knows (another step's output, a parameter without default) the
check of that step ends, because every answer would be a guess. An image that has no runtime here,
or a machine without namespaces, refuses the job, not the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.errors import check_fields, conflict
from shoal_local.sagemaker.jobs.processing_jobs import check_processing
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.jobs.transform_jobs import check_transform
from shoal_local.sagemaker.jobs.tuning_jobs import check_tuning
from shoal_local.sagemaker.pipelines.definition.definition import Definition, parse
from shoal_local.sagemaker.pipelines.definition.expressions import reference, with_wildcards
from shoal_local.sagemaker.pipelines.definition.parameters import Parameter
from shoal_local.sagemaker.pipelines.execution import records
from shoal_local.sagemaker.resources import KINDS, Resources
from shoal_local.sagemaker.shapes import Anything, Document

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


CHECKS: Mapping[str, Callable[[Document], None]] = {
    "Training": check_training,
    "Processing": check_processing,
    "Transform": check_transform,
    "Tuning": check_tuning,
}


def check_arguments(definition: Definition) -> None:
    """Raise the error that a step's Create call would raise."""
    for step in definition.steps.values():
        if step.type not in CHECKS:
            continue
        request = with_wildcards(step.arguments, partial(_default, definition.parameters))
        try:
            CHECKS[step.type](request)
        except AwsError as error:
            raise AwsError(
                error.code, f"Step {step.name}: {error.message}", error.http_status
            ) from error
        except (TypeError, AttributeError):
            if not _has_unknown(request):
                raise


def _default(parameters: Mapping[str, Parameter], expression: Document) -> Any:
    """Return the default of the parameter that an expression names; None for another expression."""
    get = reference(expression["Get"]) if "Get" in expression else None
    if get is None or get.kind != "Parameters" or get.path:
        return None
    return parameters[get.name].default


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(_has_unknown, value))
    return isinstance(value, Anything)
