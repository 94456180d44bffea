"""The tokens of Callback steps: who got one from the queue says how its step ended.

Sources: API reference, SendPipelineExecutionStepSuccess, SendPipelineExecutionStepFailure and
StopPipelineExecution ("A pipeline execution won't stop while a callback step is running"). The
message's body is as users of AWS show it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import conflict, not_found
from shoal_local.sagemaker.pipelines.definition.parameters import FROM_TEXT
from shoal_local.sagemaker.pipelines.execution.records import StepFailedError
from shoal_local.sagemaker.shapes import Document

KIND = "callback"
_CHECK_STOP_S = 0.2


@dataclass(frozen=True)
class Callback:
    """One running step: its queue, its token, which can be answered, and the answer that it waits
    for.
    """

    core: Core
    sqs: Any
    queue_url: str
    execution_arn: str
    arguments: Document
    token: str = field(default_factory=names.suffix)

    def __post_init__(self) -> None:
        token, arn = self.token, self.execution_arn
        document = {"_name": token, "PipelineExecutionArn": arn, "Status": "Waiting"}
        in_use = conflict(f"Token {token} is in use")
        self.core.store.create(KIND, token, document, lambda _: in_use)

    def send(self, status: str) -> None:
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

    def wait(self, stop: Event) -> dict[str, str]:
        """Return the answer's parameters. A stop is told to the queue, and the answer awaited."""
        told = False
        while True:
            try:
                answer = self.core.store.wait(
                    KIND,
                    self.token,
                    lambda each: each is not None and each["Status"] != "Waiting",
                    _CHECK_STOP_S,
                )
            except TimeoutError:
                if stop.is_set() and not told:
                    told = True
                    self.send("Stopping")
                continue
            if answer is None or answer["Status"] == "Failed":
                raise StepFailedError((answer or {}).get("FailureReason", ""))
            return {each["Name"]: each["Value"] for each in answer.get("OutputParameters", [])}


def values_of(answer: Mapping[str, str], declared: list[Document]) -> Document:
    """Return the declared outputs with their types; raise StepFailedError for a wrong answer.

    What AWS does with one is not documented.
    """
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
        for each in self._core.store.select(KIND, lambda each: bool(each["Status"] == "Waiting")):
            self._core.store.change(KIND, each["_name"], lambda document: document.update(reason))

    def _answer(self, request: Document, answer: Document) -> Document:
        token = request["CallbackToken"]
        document = self._core.store.get(KIND, token)
        if document is None or document["_name"] != token:
            raise not_found(f"Callback token {token} does not exist.")
        client_token = request.get("ClientRequestToken")

        def edit(each: Document) -> None:
            if each["Status"] == "Waiting":
                each.update(answer, ClientRequestToken=client_token)
            elif client_token is None or each.get("ClientRequestToken") != client_token:
                raise conflict(f"Callback token {token} has been answered already.")

        self._core.store.change(KIND, token, edit)
        return {"PipelineExecutionArn": document["PipelineExecutionArn"]}
