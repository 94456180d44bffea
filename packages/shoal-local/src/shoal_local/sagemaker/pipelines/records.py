"""One execution's document in the store, the events of its status changes, and how its steps end
otherwise than by success; the tokens of Callback steps, with which others end them.

Sources: API reference, SendPipelineExecutionStepSuccess, SendPipelineExecutionStepFailure and
StopPipelineExecution ("A pipeline execution won't stop while a callback step is running"). The
message's body is as users of AWS show it.
"""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.sagemaker import measurements, names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import conflict, not_found
from shoal_local.sagemaker.pipelines.definition import Step
from shoal_local.sagemaker.pipelines.expressions import FROM_TEXT
from shoal_local.sagemaker.shapes import Document, fitting

KIND = "pipeline-execution"
TERMINAL = {"Stopped", "Failed", "Succeeded", "CompletedWithFailures"}
_DESCRIPTION = "DescribePipelineExecutionResponse"
_EXECUTION_EVENT = "SageMaker Model Building Pipeline Execution Status Change"
_STEP_EVENT = "SageMaker Model Building Pipeline Execution Step Status Change"


class StepFailedError(Exception):
    """A step failed: `str()` is its FailureReason, `cause` what retry policies name."""

    def __init__(self, reason: str, cause: str = "") -> None:
        super().__init__(reason)
        self.cause = cause


class StepStoppedError(Exception):
    """The execution was stopped, and with it this step."""


@dataclass(frozen=True)
class ExecutionRecord:
    """Reads and writes the document `<pipeline>/<execution id>`, with steps from their start on."""

    core: Core
    name: str

    def document(self) -> Document:
        return self.core.store.read(KIND, self.name)

    def set_status(self, status: str, reason: str = "") -> str:
        """Publish another status unless the execution has ended; return what it has then."""
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
        status, arn = document["PipelineExecutionStatus"], document["PipelineArn"]
        times = document["CreationTime"], document.get("_ended_at", 0.0)
        self.core.context.measure(measurements.of_status("Execution", status, *times, arn))
        self.core.emit(_EXECUTION_EVENT, detail, arn)

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
        status, arn = entry["StepStatus"], document["PipelineArn"]
        times = entry["StartTime"], entry.get("EndTime", 0.0)
        self.core.context.measure(
            measurements.of_status("Step", status, *times, arn, StepName=step.name)
        )
        self.core.emit(_STEP_EVENT, detail, arn)


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


CALLBACK_KIND = "callback"


def _is_waiting(callback: Document) -> bool:
    return bool(callback["Status"] == "Waiting")


@dataclass(frozen=True)
class Callback:
    """One running step: its queue, and its token, which can be answered from now on."""

    core: Core
    sqs: Any
    queue_url: str
    execution_arn: str
    arguments: Document
    token: str = field(default_factory=names.suffix)

    def __post_init__(self) -> None:
        token, arn = self.token, self.execution_arn
        document = {"_name": token, "PipelineExecutionArn": arn, "Status": "Waiting"}
        self.core.store.create(CALLBACK_KIND, token, document, KeyError)

    def _send(self, status: str) -> None:
        """Send the token; raise StepFailedError if the queue does not take it."""
        body = {
            "token": self.token,
            "pipelineExecutionArn": self.execution_arn,
            "arguments": self.arguments,
            "status": status,
        }
        try:
            self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=json.dumps(body))
        except (ClientError, BotoCoreError) as error:
            raise StepFailedError(
                f"ClientError: Failed to invoke sqs:SendMessage. Error Details: {error}"
            ) from error

    def answer(self, stop: Event) -> dict[str, str]:
        """Send the token, and return the answer's parameters; a stop is told to the queue."""
        self._send("Executing")
        wait = partial(self.core.store.wait, CALLBACK_KIND, self.token, _is_waiting)
        if not wait(stop.is_set):
            self._send("Stopping")
            wait()
        answer = self.core.store.read(CALLBACK_KIND, self.token)
        if answer["Status"] == "Failed":
            raise StepFailedError(answer["FailureReason"])
        return {each["Name"]: each["Value"] for each in answer["OutputParameters"]}


def values_of(answer: Mapping[str, str], declared: list[Document]) -> Document:
    """Return the declared outputs with their types; a wrong answer is a StepFailedError here."""
    values: Document = {}
    for each in declared:
        name, kind = each["OutputName"], each["OutputType"]
        if name not in answer:
            raise StepFailedError(f"ClientError: The answer lacks the OutputParameter {name}")
        try:
            values[name] = FROM_TEXT[kind](answer[name])
        except (KeyError, ValueError):
            raise StepFailedError(
                f"ClientError: The OutputParameter {name} is not of type {kind}: {answer[name]}"
            ) from None
    return values


class Callbacks:
    """SendPipelineExecutionStepSuccess and SendPipelineExecutionStepFailure."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def succeed(self, request: Document) -> Document:
        outputs = {"OutputParameters": request.get("OutputParameters", [])}
        return self._answer(request, {"Status": "Succeeded", **outputs})

    def fail(self, request: Document) -> Document:
        reason = request.get("FailureReason", "The callback step was failed without a reason.")
        return self._answer(request, {"Status": "Failed", "FailureReason": reason})

    def abandon(self) -> None:
        """Let no step wait any more: the emulator stops."""
        reason = {"Status": "Failed", "FailureReason": "The emulator was stopped."}
        for each in self._core.store.select(CALLBACK_KIND, _is_waiting):
            self._core.store.change(
                CALLBACK_KIND, each["_name"], lambda document: document.update(reason)
            )

    def _answer(self, request: Document, answer: Document) -> Document:
        token = request["CallbackToken"]
        document = self._core.store.get(CALLBACK_KIND, token)
        if document is None or document["_name"] != token:
            raise not_found(f"Callback token {token} does not exist.")
        client_token = request.get("ClientRequestToken")

        def edit(each: Document) -> None:
            if _is_waiting(each):
                each.update(answer, ClientRequestToken=client_token)
            elif client_token is None or each.get("ClientRequestToken") != client_token:
                raise conflict(f"Callback token {token} has been answered already.")

        self._core.store.change(CALLBACK_KIND, token, edit)
        return {"PipelineExecutionArn": document["PipelineExecutionArn"]}
