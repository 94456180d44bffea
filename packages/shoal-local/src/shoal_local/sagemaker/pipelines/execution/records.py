"""One execution's document in the store, the events of its status changes, and how its steps end
otherwise than by success.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from shoal_local.sagemaker import measurements, names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.pipelines.definition.definition import Step
from shoal_local.sagemaker.shapes import Document, fitting

KIND = "pipeline-execution"
TERMINAL = {"Stopped", "Failed", "Succeeded", "CompletedWithFailures"}
_DESCRIPTION = "DescribePipelineExecutionResponse"
_EXECUTION_EVENT = "SageMaker Model Building Pipeline Execution Status Change"
_STEP_EVENT = "SageMaker Model Building Pipeline Execution Step Status Change"


class StepFailedError(Exception):
    """A step failed.

    `str()` is its FailureReason, `cause` what retry policies name.
    """

    def __init__(self, reason: str, cause: str = "") -> None:
        super().__init__(reason)
        self.cause = cause


class StepStoppedError(Exception):
    """The execution was stopped, and with it this step."""


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
        self.core.context.measure(measurements.of_execution(document))
        self.core.emit(_EXECUTION_EVENT, detail, document["PipelineArn"])

    def set_step(self, step: Step, status: str, **changes: Any) -> None:
        """Set a step's status and other members of PipelineExecutionStep, and publish an event."""
        previous: dict[str, Any] = {}

        def edit(document: Document) -> None:
            entry = document["_steps"].setdefault(step.name, _first_entry(step))
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

    def report(self, step: Step, metadata: Document) -> None:
        """Show what a running step has created."""
        self.set_step(step, "Executing", Metadata=metadata)

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
        self.core.context.measure(measurements.of_step(document, step.name))
        self.core.emit(_STEP_EVENT, detail, document["PipelineArn"])


def _first_entry(step: Step) -> Document:
    shown = {key: step.document.get(key) for key in ("DisplayName", "Description")}
    described = {f"Step{key}": value for key, value in shown.items() if value is not None}
    return {"StepName": step.name, "StartTime": names.now(), "AttemptCount": 1, **described}


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
