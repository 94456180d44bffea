"""Starts, stops and retries executions of pipelines; describes and lists them, their steps and
parameters.
"""

from __future__ import annotations

import json
import threading

from shoal_local.context import RoleCredentials
from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import conflict, invalid, not_emulated, not_found
from shoal_local.sagemaker.listing import Listing
from shoal_local.sagemaker.pipelines.definition.definition import Definition, parse
from shoal_local.sagemaker.pipelines.definition.parameters import values_of
from shoal_local.sagemaker.pipelines.execution import pipelines, records
from shoal_local.sagemaker.pipelines.execution.callbacks import Callbacks
from shoal_local.sagemaker.pipelines.execution.execution import Execution
from shoal_local.sagemaker.pipelines.execution.records import KIND, ExecutionRecord
from shoal_local.sagemaker.pipelines.execution.selection import only_selected, reused_steps
from shoal_local.sagemaker.references import assume
from shoal_local.sagemaker.shapes import Document

_LISTING = Listing(
    "PipelineExecutionSummaries",
    "PipelineExecutionSummary",
    "PipelineExecutionArn",
    "PipelineExecutionStatus",
    extra_filters=frozenset({"PipelineName"}),
)
_STEPS = Listing(
    "PipelineExecutionSteps",
    "PipelineExecutionStep",
    "StepName",
    "StepStatus",
    "StartTime",
    extra_filters=frozenset({"PipelineExecutionArn"}),
)
_PARAMETERS = Listing(
    "PipelineParameters",
    "Parameter",
    "Name",
    created="_position",
    default_order="Ascending",
    extra_filters=frozenset({"PipelineExecutionArn"}),
)
_REFUSED = ("PipelineVersionId", "PipelineVersionAlias", "MlflowExperimentName", "RoleArn")

MAX_CONCURRENT = 20
"""Concurrent pipeline executions of an account (SageMaker developer guide, quotas)."""


class Executions:
    """The executions of the account's pipelines."""

    def __init__(self, core: Core, all_pipelines: pipelines.Pipelines) -> None:
        self._core = core
        self._pipelines = all_pipelines
        self.callbacks = Callbacks(core)
        self._running: dict[str, Execution] = {}
        self._starting = threading.Lock()

    def start(self, request: Document) -> Document:
        for field in _REFUSED:
            if field in request:
                raise not_emulated(f"StartPipelineExecution.{field}")
        pipeline = self._pipelines.find(request["PipelineName"])
        with self._starting:
            token, arn = request["ClientRequestToken"], pipeline["PipelineArn"]
            for each in self._core.store.select(
                KIND, lambda other: other["_token"] == token and other["PipelineArn"] == arn
            ):
                return {"PipelineExecutionArn": each["PipelineExecutionArn"]}
            self._check_quota()
            return self._start(request, pipeline)

    def _check_quota(self) -> None:
        """Raise ResourceLimitExceeded at the account's limit of concurrent executions.

        The API reference lists the error for StartPipelineExecution; the words are ours.
        """
        running = len(
            self._core.store.select(
                KIND, lambda each: each["PipelineExecutionStatus"] not in records.TERMINAL
            )
        )
        if running >= MAX_CONCURRENT:
            message = (
                f"The account-level limit of concurrent pipeline executions is {MAX_CONCURRENT},"
                f" and {running} are running. Start it later."
            )
            raise AwsError("ResourceLimitExceeded", message)

    def _start(self, request: Document, pipeline: Document) -> Document:
        definition = parse(pipeline["PipelineDefinition"])
        values = values_of(definition.parameters, request.get("PipelineParameters", []))
        identifier = names.execution_id()
        credentials = self._assume(pipeline["RoleArn"], identifier)
        document = self._document(request, pipeline, identifier) | {
            "_parameters": values,
            "_steps": self._reused_steps(request, pipeline, definition),
        }
        self._core.store.create(KIND, document["_name"], document, _name_in_use)
        self._core.store.change(
            pipelines.KIND,
            pipeline["_name"],
            lambda each: each.update(LastRunTime=document["CreationTime"]),
        )
        self._core.context.faults.began(document["PipelineExecutionDisplayName"], identifier)
        ExecutionRecord(self._core, document["_name"]).tell_status(document, None)
        return self._run(document, definition, credentials)

    def _reused_steps(
        self, request: Document, pipeline: Document, definition: Definition
    ) -> dict[str, Document]:
        if "SelectiveExecutionConfig" not in request:
            return {}

        def find(arn: str) -> Document:
            source = self._find(arn)
            if source["PipelineArn"] != pipeline["PipelineArn"]:
                raise invalid(
                    f"Invalid SourcePipelineExecutionArn: {arn}. It is of another pipeline"
                )
            return source

        return reused_steps(definition.steps, request["SelectiveExecutionConfig"], find)

    def _assume(self, role_arn: str, identifier: str) -> RoleCredentials:
        return assume(self._core, role_arn, f"SageMaker-pipeline-{identifier}")

    def _run(
        self, document: Document, definition: Definition, credentials: RoleCredentials
    ) -> Document:
        execution = Execution(
            self._core,
            document["_name"],
            only_selected(definition, document),
            document["_parameters"],
            credentials,
        )
        self._running[document["_name"]] = execution
        execution.start()
        return {"PipelineExecutionArn": document["PipelineExecutionArn"]}

    def retry(self, request: Document) -> Document:
        """Run the steps of an execution that failed or were stopped, and what follows them.

        It keeps its ARN, definition and parameters, and the outputs of the steps that succeeded.
        What the list of steps has of the others meanwhile is not documented: here, nothing.
        """
        with self._starting:
            document = self._find(request["PipelineExecutionArn"])
            token = {"_retry_token": request["ClientRequestToken"]}
            if token.items() <= document.items():
                return {"PipelineExecutionArn": document["PipelineExecutionArn"]}
            self._check_quota()
            credentials = self._assume(
                document["RoleArn"], names.last_part(document["PipelineExecutionArn"])
            )
            changes = {key: request[key] for key in ("ParallelismConfiguration",) if key in request}
            record = ExecutionRecord(self._core, document["_name"])
            document = record.resume(token | changes)
            return self._run(document, parse(document["_definition"]), credentials)

    def _document(self, request: Document, pipeline: Document, identifier: str) -> Document:
        now = names.now()
        parallelism = request.get("ParallelismConfiguration") or pipeline.get(
            "ParallelismConfiguration"
        )
        document = {
            "_name": f"{pipeline['_name']}/{identifier}",
            "_pipeline": pipeline["PipelineName"],
            "_token": request["ClientRequestToken"],
            "_definition": pipeline["PipelineDefinition"],
            "PipelineArn": pipeline["PipelineArn"],
            "PipelineExecutionArn": f"{pipeline['PipelineArn']}/execution/{identifier}",
            "PipelineExecutionDisplayName": request.get(
                "PipelineExecutionDisplayName", f"execution-{int(now * 1000)}"
            ),
            "PipelineExecutionStatus": "Executing",
            "CreationTime": now,
            "StartTime": now,
            "LastModifiedTime": now,
            "CreatedBy": {},
            "LastModifiedBy": {},
            "RoleArn": pipeline["RoleArn"],
        }
        for key in ("PipelineExecutionDescription", "SelectiveExecutionConfig"):
            if key in request:
                document[key] = request[key]
        return document | ({"ParallelismConfiguration": parallelism} if parallelism else {})

    def _find(self, arn: str) -> Document:
        for document in self._core.store.select(
            KIND, lambda each: bool(each["PipelineExecutionArn"] == arn)
        ):
            return document
        raise not_found(f"Pipeline execution with ARN {arn} does not exist.")

    def stop(self, request: Document) -> Document:
        document = self._find(request["PipelineExecutionArn"])
        status = ExecutionRecord(self._core, document["_name"]).set_status("Stopping")
        if status != "Stopping":
            raise conflict(
                f"Pipeline execution with ARN {document['PipelineExecutionArn']} has already ended"
                f" with status {status}."
            )
        with self._starting:  # a retry may be about to replace what runs
            execution = self._running[document["_name"]]
        execution.stop()
        return {"PipelineExecutionArn": document["PipelineExecutionArn"]}

    def describe(self, request: Document) -> Document:
        return self._find(request["PipelineExecutionArn"])

    def definition(self, request: Document) -> Document:
        document = self._find(request["PipelineExecutionArn"])
        return {
            "PipelineDefinition": document["_definition"],
            "CreationTime": document["CreationTime"],
        }

    def list(self, request: Document) -> Document:
        pipeline = self._pipelines.find(request["PipelineName"])

        def entry(each: Document) -> Document | None:
            if each["PipelineArn"] != pipeline["PipelineArn"]:
                return None
            reason = each.get("FailureReason")
            return each | ({"PipelineExecutionFailureReason": reason} if reason else {})

        filter_names = {"CreatedAfter": "CreationTimeAfter", "CreatedBefore": "CreationTimeBefore"}
        filters = {filter_names.get(key, key): value for key, value in request.items()}
        return self._core.store.listed(
            KIND, lambda executions: _LISTING.page(executions, filters, entry, in_order=True)
        )

    def steps(self, request: Document) -> Document:
        if (
            "PipelineExecutionArn" not in request
        ):  # AWS's model does not ask for it, and there is nothing else to list steps by
            raise invalid("PipelineExecutionArn is required")
        document = self._find(request["PipelineExecutionArn"])
        entries = [
            step | {"_sequence": position}
            for position, step in enumerate(document["_steps"].values())
        ]
        return _STEPS.page(entries, request)

    def parameters(self, request: Document) -> Document:
        values = self._find(request["PipelineExecutionArn"])["_parameters"]
        entries = [
            {
                "Name": name,
                "Value": value if isinstance(value, str) else json.dumps(value),
                "_position": position,
            }
            for position, (name, value) in enumerate(values.items())
        ]
        return _PARAMETERS.page(entries, request)

    def close(self) -> None:
        """Stop every execution.

        `join` waits for them, but not for a function that a Lambda step has called.
        """
        self.callbacks.abandon()
        for execution in self._running.values():
            execution.stop()

    def join(self) -> None:
        for execution in self._running.values():
            execution.join(timeout_s=5)


def _name_in_use(existing: Document) -> AwsError:
    return conflict(f"{existing['PipelineExecutionArn']} already exists")
