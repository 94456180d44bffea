"""The pipelines of the account, and their executions.

A pipeline is refused if its run would refuse a step's arguments. A parameter counts with its
default. At a value that only the run knows (another step's output, a parameter without default)
the check of that step ends, because every answer would be a guess. An image that has no runtime
here, or a machine without namespaces, refuses the job, not the pipeline.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import check_fields, conflict
from shoal_local.sagemaker.jobs.processing_jobs import check_processing
from shoal_local.sagemaker.jobs.training.training_request import check_training
from shoal_local.sagemaker.jobs.tuning_jobs import check_tuning
from shoal_local.sagemaker.pipelines import records
from shoal_local.sagemaker.pipelines.definition import CREATED, Definition, check_request, parse
from shoal_local.sagemaker.pipelines.execution import Execution
from shoal_local.sagemaker.pipelines.expressions import (
    Parameter,
    entries,
    reference,
    values_of,
    with_wildcards,
)
from shoal_local.sagemaker.pipelines.records import KIND, Callbacks, ExecutionRecord
from shoal_local.sagemaker.resources import KINDS, Resources, assume
from shoal_local.sagemaker.shapes import Document
from shoal_local.sagemaker.store import Listing

PIPELINE_KIND = "pipeline"
_KEPT = ("PipelineDisplayName", "PipelineDescription", "RoleArn", "ParallelismConfiguration")


class Pipelines(Resources):
    """The pipelines of the account; one that the emulator could not run is refused."""

    kind = KINDS[PIPELINE_KIND]
    verbs: ClassVar[tuple[str, ...]] = (*Resources.verbs, "update")

    def create(self, request: Document) -> Document:
        text = request["PipelineDefinition"]
        check_arguments(parse(text))
        name, token = request["PipelineName"], request["ClientRequestToken"]
        existing = self._core.store.get(PIPELINE_KIND, name)
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
        document = self.find(request["PipelineName"])
        changed_keys = ("PipelineDefinition", *_KEPT)
        changes: Document = {key: request[key] for key in changed_keys if key in request}
        if "PipelineDefinition" in changes:
            check_arguments(parse(changes["PipelineDefinition"]))
        self._core.store.change(
            PIPELINE_KIND,
            document["_name"],
            lambda each: each.update(changes, LastModifiedTime=names.now()),
        )
        return {"PipelineArn": document["PipelineArn"]}

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
        self._core.store.delete(PIPELINE_KIND, document["_name"])
        return {"PipelineArn": document["PipelineArn"]}


CHECKS: Mapping[str, Callable[[Document], None]] = {
    "Training": check_training,
    "Processing": check_processing,
    "Tuning": check_tuning,
}


def check_arguments(definition: Definition) -> None:
    """Raise the error that a step's Create call would raise."""
    for step in definition.steps.values():
        if step.type not in CREATED:
            continue
        request = with_wildcards(step.arguments, partial(_default, definition.parameters))
        check_request(step.name, CREATED[step.type], request)
        try:
            check_fields(f"Create{CREATED[step.type].noun}", request)
            if check := CHECKS.get(step.type):
                check(request)
        except AwsError as error:
            raise AwsError(
                error.code, f"Step {step.name}: {error.message}", error.http_status
            ) from error
        except (TypeError, AttributeError):
            continue  # at a value that only the run knows


def _default(parameters: Mapping[str, Parameter], expression: Document) -> Any:
    """Return the default of the parameter that an expression names; None for another expression."""
    get = reference(expression["Get"]) if "Get" in expression else None
    if get is None or get.kind != "Parameters" or get.path:
        return None
    return parameters[get.name].default


_STEPS = Listing(
    "PipelineExecutionSteps",
    "PipelineExecutionStep",
    "StepName",
    "StepStatus",
    extra_filters=("PipelineExecutionArn",),
)
_PARAMETERS = Listing(
    "PipelineParameters",
    "Parameter",
    "Name",
    default_order="Ascending",
    extra_filters=("PipelineExecutionArn",),
)


class Executions(Resources):
    """The executions of the account's pipelines."""

    kind = KINDS[KIND]
    verbs: ClassVar[tuple[str, ...]] = ("start", "stop", "describe", "list")

    def __init__(self, core: Core, all_pipelines: Pipelines) -> None:
        super().__init__(core)
        self._pipelines = all_pipelines
        self.callbacks = Callbacks(core)
        self._running: dict[str, Execution] = {}
        self._starting = threading.Lock()

    def start(self, request: Document) -> Document:
        pipeline = self._pipelines.describe(request)
        token, arn = request["ClientRequestToken"], pipeline["PipelineArn"]
        with self._starting:
            for each in self._core.store.select(
                KIND, lambda other: other["_token"] == token and other["PipelineArn"] == arn
            ):
                return {"PipelineExecutionArn": each["PipelineExecutionArn"]}
            return self._start(request, pipeline)

    def _start(self, request: Document, pipeline: Document) -> Document:
        definition = parse(pipeline["PipelineDefinition"])
        values = values_of(definition.parameters, request.get("PipelineParameters", []))
        identifier = names.execution_id()
        credentials = assume(self._core, pipeline["RoleArn"], f"pipeline-{identifier}")
        document = self._document(request, pipeline, identifier) | {"_parameters": values}
        name, arn = document["_name"], document["PipelineExecutionArn"]
        self._core.store.create(KIND, name, document, self._taken)
        self._core.store.change(
            PIPELINE_KIND,
            pipeline["_name"],
            lambda each: each.update(LastRunTime=document["CreationTime"]),
        )
        self._core.context.faults.began(document["PipelineExecutionDisplayName"], identifier)
        ExecutionRecord(self._core, name).tell_status(document, None)
        self._running[name] = Execution(self._core, name, definition, values, credentials)
        self._running[name].start(lambda: self._end(name))
        return {"PipelineExecutionArn": arn}

    def _end(self, name: str) -> None:
        with self._starting:
            del self._running[name]

    def _document(self, request: Document, pipeline: Document, identifier: str) -> Document:
        now, key = names.now(), "ParallelismConfiguration"
        kept: Document = {
            each: request[each]
            for each in ("PipelineExecutionDescription", "PipelineExecutionDisplayName")
            if each in request
        }
        parallelism = request.get(key) or pipeline.get(key)
        return {
            "_name": f"{pipeline['_name']}/{identifier}",
            "_pipeline": pipeline["PipelineName"],
            "_token": request["ClientRequestToken"],
            "_definition": pipeline["PipelineDefinition"],
            "_steps": {},
            "PipelineArn": pipeline["PipelineArn"],
            "PipelineExecutionArn": f"{pipeline['PipelineArn']}/execution/{identifier}",
            "PipelineExecutionDisplayName": f"execution-{int(now * 1000)}",
            "PipelineExecutionStatus": "Executing",
            "CreationTime": now,
            "StartTime": now,
            "LastModifiedTime": now,
            "CreatedBy": {},
            "LastModifiedBy": {},
            "RoleArn": pipeline["RoleArn"],
            **kept,
            **({key: parallelism} if parallelism else {}),
        }

    def find(self, name_or_arn: str) -> Document:
        for document in self._core.store.select(
            KIND, lambda each: bool(each["PipelineExecutionArn"] == name_or_arn)
        ):
            return document
        raise self._error(self.kind.missing, "", name_or_arn)

    def describe(self, request: Document) -> Document:
        return self.find(request["PipelineExecutionArn"])

    def stop(self, request: Document) -> Document:
        document = self.describe(request)
        status = ExecutionRecord(self._core, document["_name"]).set_status("Stopping")
        if status != "Stopping":
            raise conflict(
                f"Pipeline execution with ARN {document['PipelineExecutionArn']} has already ended"
                f" with status {status}."
            )
        with self._starting:
            execution = self._running.get(document["_name"])
        if execution:  # it may have ended meanwhile
            execution.stop()
        return {"PipelineExecutionArn": document["PipelineExecutionArn"]}

    def definition(self, request: Document) -> Document:
        document = self.describe(request)
        members = {"PipelineDefinition": document["_definition"]}
        return members | {"CreationTime": document["CreationTime"]}

    def list(self, request: Document) -> Document:
        pipeline = self._pipelines.describe(request)
        return super().list(request | {"PipelineName": pipeline["PipelineName"]})

    def _entry(self, request: Document, document: Document) -> Document | None:
        if document["_pipeline"] != request["PipelineName"]:
            return None
        reason = document.get("FailureReason")
        return document | ({"PipelineExecutionFailureReason": reason} if reason else {})

    def steps(self, request: Document) -> Document:
        steps = self.describe(request)["_steps"].values()
        return _STEPS.page(steps, request)

    def parameters(self, request: Document) -> Document:
        values = self.describe(request)["_parameters"]
        return _PARAMETERS.page(entries(values), request)

    def close(self) -> None:
        """Stop every execution; `join` waits for all but a Lambda step's function."""
        self.callbacks.abandon()
        for execution in self._not_ended():
            execution.stop()

    def join(self) -> None:
        for execution in self._not_ended():
            execution.join(timeout_s=5)

    def _not_ended(self) -> Iterable[Execution]:
        with self._starting:
            return list(self._running.values())
