"""Pipelines of Callback steps: the cheapest steps there are, answered through a queue."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from local_kit.sagemaker_account import Account


@dataclass(frozen=True)
class Questions:
    """A queue to which steps send their questions."""

    account: Account
    url: str

    @classmethod
    def of(cls, account: Account, name: str) -> Questions:
        return cls(account, account.client("sqs").create_queue(QueueName=name)["QueueUrl"])

    def step(self, name: str, **members: Any) -> dict[str, Any]:
        """A Callback step whose question is its name and its Arguments."""
        return {
            "Name": name,
            "Type": "Callback",
            "SqsQueueUrl": self.url,
            "OutputParameters": [{"OutputName": "size", "OutputType": "Integer"}],
            **members,
            "Arguments": {"step": name, **members.get("Arguments", {})},
        }

    def next(self) -> dict[str, Any]:
        """Return the next message, once it is there."""
        sqs = self.account.client("sqs")
        (message,) = sqs.receive_message(QueueUrl=self.url, WaitTimeSeconds=20)["Messages"]
        sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        body: dict[str, Any] = json.loads(message["Body"])
        return body

    def answer(self, size: int | None) -> dict[str, Any]:
        """Answer the next question, with a failure for None; return its arguments."""
        body, client = self.next(), self.account.sagemaker
        if size is None:
            client.send_pipeline_execution_step_failure(CallbackToken=body["token"])
        else:
            client.send_pipeline_execution_step_success(
                CallbackToken=body["token"],
                OutputParameters=[{"Name": "size", "Value": str(size)}],
            )
        arguments: dict[str, Any] = body["arguments"]
        return arguments


def size_of(step: str) -> dict[str, str]:
    """The expression for a step's answer."""
    return {"Get": f"Steps.{step}.OutputParameters['size']"}
