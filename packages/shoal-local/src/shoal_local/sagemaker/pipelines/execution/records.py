"""One execution's document in the store, and the events of its status changes."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from shoal_local.sagemaker import measurements, names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import conflict
from shoal_local.sagemaker.pipelines.definition.caching import duration_s
from shoal_local.sagemaker.pipelines.definition.definition import Step
from shoal_local.sagemaker.shapes import Document, fitting

KIND = "pipeline-execution"
TERMINAL = {"Stopped", "Failed", "Succeeded", "CompletedWithFailures"}
_RETRYABLE = {"Stopped", "Failed"}
_DESCRIPTION = "DescribePipelineExecutionResponse"
_EXECUTION_EVENT = "SageMaker Model Building Pipeline Execution Status Change"
_STEP_EVENT = "SageMaker Model Building Pipeline Execution Step Status Change"


@dataclass(frozen=True)
class ExecutionRecord:
    """Reads and writes the document `name` (`<pipeline>/<execution id>`).

    Steps are listed from their start on.
    """

    core: Core
    name: str

    def document(self) -> Document:
        return self.core.store.read(KIND, self.name)

    def set_status(self, status: str, reason: str = "") -> str:
        """Set the execution's status and publish an event; return the status that it has then.

        An execution that has ended keeps its status.
        """
        previous = {}

        def edit(document: Document) -> None:
            previous["status"] = document["PipelineExecutionStatus"]
            if previous["status"] in TERMINAL:
                return
            document.update(PipelineExecutionStatus=status, LastModifiedTime=names.now())
            if reason:
                one_line = " ".join(reason.splitlines())  # the shape's pattern has no line break
                document["FailureReason"] = fitting(_DESCRIPTION, "FailureReason", one_line)
            if status in TERMINAL:
                document["_ended_at"] = document["LastModifiedTime"]

        document = self.core.store.change(KIND, self.name, edit)
        current = str(document["PipelineExecutionStatus"])
        if previous["status"] != current:
            self.tell_status(document, previous["status"])
        return current

    def find_hit(self, step: Step, key: str) -> Document | None:
        """Return the entry of the latest run with the key that is not too old, and its execution as
        CacheHitResult; None without one, or where the step has no cache.
        """
        config, pipeline_arn = step.document.get("CacheConfig", {}), self.document()["PipelineArn"]
        if not config.get("Enabled"):
            return None
        since = names.now() - duration_s(config["ExpireAfter"])

        def is_hit(execution: Document) -> bool:
            entry = execution["_steps"].get(step.name, {})
            return (
                execution["PipelineArn"] == pipeline_arn
                and entry.get("_cache_key") == key
                and "SelectiveExecutionResult" not in entry  # the run was another execution's
                and entry["EndTime"] > since
            )

        executions = self.core.store.select(KIND, is_hit)
        if not executions:
            return None
        latest = max(executions, key=lambda each: float(each["_steps"][step.name]["EndTime"]))
        result = {"SourcePipelineExecutionArn": latest["PipelineExecutionArn"]}
        return {**latest["_steps"][step.name], "CacheHitResult": result}

    def resume(self, changes: Document) -> Document:
        """Let an execution that failed or was stopped execute again, with the steps that succeeded;
        raise ConflictException for any other, as the API reference lists it (the words are ours).
        """
        previous = {}

        def edit(document: Document) -> None:
            previous["status"] = document["PipelineExecutionStatus"]
            if previous["status"] not in _RETRYABLE:
                raise conflict(
                    f"Pipeline execution with ARN {document['PipelineExecutionArn']} has status"
                    f" {previous['status']}; only {' and '.join(sorted(_RETRYABLE))} executions"
                    " can be retried."
                )
            for key in ("FailureReason", "_ended_at"):
                document.pop(key, None)
            document["_steps"] = {
                name: entry
                for name, entry in document["_steps"].items()
                if entry["StepStatus"] == "Succeeded"
            }
            document.update(changes)
            document.update(PipelineExecutionStatus="Executing", LastModifiedTime=names.now())

        document = self.core.store.change(KIND, self.name, edit)
        self.tell_status(document, previous["status"])
        return document

    def tell_status(self, document: Document, previous: str | None) -> None:
        detail = {
            "pipelineExecutionDisplayName": document["PipelineExecutionDisplayName"],
            "pipelineExecutionDescription": document.get("PipelineExecutionDescription", ""),
            "pipelineArn": document["PipelineArn"],
            "pipelineExecutionArn": document["PipelineExecutionArn"],
            "currentPipelineExecutionStatus": document["PipelineExecutionStatus"],
            "previousPipelineExecutionStatus": previous,
            "executionStartTime": iso(document["CreationTime"]),
            "executionEndTime": iso(document.get("_ended_at")),
        }
        self.core.measure(measurements.of_execution(document))
        self.core.emit(_EXECUTION_EVENT, detail, document["PipelineArn"])

    def set_step(self, step: Step, status: str, **changes: Any) -> None:
        """Set a step's status and other members of PipelineExecutionStep, and publish an event."""
        previous: dict[str, Any] = {}

        def edit(document: Document) -> None:
            entry = document["_steps"].setdefault(step.name, self._first_entry(step))
            previous["status"] = entry.get("StepStatus")
            entry.update(changes, StepStatus=status)
            if status in {"Succeeded", "Failed", "Stopped"}:
                entry["EndTime"] = names.now()
            if "FailureReason" in changes:
                reason = changes["FailureReason"]
                entry["FailureReason"] = fitting("PipelineExecutionStep", "FailureReason", reason)
            document["LastModifiedTime"] = names.now()

        document = self.core.store.change(KIND, self.name, edit)
        if previous["status"] != status:
            self._tell_step(document, step, previous["status"])

    @staticmethod
    def _first_entry(step: Step) -> Document:
        descriptions = {
            "StepDisplayName": step.document.get("DisplayName"),
            "StepDescription": step.document.get("Description"),
        }
        entry: Document = {"StepName": step.name, "StartTime": names.now(), "AttemptCount": 1}
        return entry | {key: value for key, value in descriptions.items() if value}

    def _tell_step(self, document: Document, step: Step, previous: str | None) -> None:
        entry = document["_steps"][step.name]
        detail = {
            "metadata": lower_camel(entry.get("Metadata", {})),
            "stepStartTime": iso(entry["StartTime"]),
            "stepEndTime": iso(entry.get("EndTime")),
            "stepName": step.name,
            "stepType": step.type,
            "previousStepStatus": previous,
            "currentStepStatus": entry["StepStatus"],
            "failureReason": entry.get("FailureReason", ""),
            "pipelineArn": document["PipelineArn"],
            "pipelineExecutionArn": document["PipelineExecutionArn"],
        }
        self.core.measure(measurements.of_step(document, step.name))
        self.core.emit(_STEP_EVENT, detail, document["PipelineArn"])


def iso(instant: float | None) -> str | None:
    """Return an instant as events carry it: `2026-11-20T05:53:04Z`."""
    if instant is None:
        return None
    return datetime.datetime.fromtimestamp(instant, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lower_camel(document: Any) -> Any:
    """Return metadata as step events carry it: `{"trainingJob": {"arn": ...}}`."""
    if isinstance(document, dict):
        return {key[:1].lower() + key[1:]: lower_camel(value) for key, value in document.items()}
    return [lower_camel(each) for each in document] if isinstance(document, list) else document
