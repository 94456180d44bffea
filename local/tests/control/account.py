"""What the control plane's tests need: a running emulator and short ways to make roles, functions,
queues and stacks in it.
"""

from __future__ import annotations

import io
import itertools
import json
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal_local.testing import LocalAccount, emulator

ROOT = Path(__file__).resolve().parents[3]
COUNTER = itertools.count()


@contextmanager
def running(
    state_dir: Path, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[Account]:
    """The account of an emulator on which schedules run fast."""
    options = ("--schedule-speed", "60", *options)
    with emulator(state_dir, *options, environment=environment) as local:
        yield Account(local.account.endpoint, state_dir)


def eventually(found: Callable[[], Any], limit_s: float = 15.0) -> Any:
    """What `found` returns once that is true; the last answer when the limit is over."""
    deadline = time.monotonic() + limit_s
    while not (answer := found()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def unique(stem: str) -> str:
    return f"{stem}-{next(COUNTER)}"


def zipped(source: str, name: str = "main.py") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, source)
    return buffer.getvalue()


def allow(actions: str | list[str], resource: str = "*", **more: Any) -> dict[str, Any]:
    """A policy document with one statement."""
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": actions, "Resource": resource, **more}],
    }


def trust(principal: Mapping[str, Any]) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class Account(LocalAccount):
    """The one account of a running emulator."""

    def role(self, principal: Mapping[str, Any] | None = None) -> str:
        """A new role's ARN; functions may assume it unless `principal` says otherwise."""
        document = trust(principal or {"Service": "lambda.amazonaws.com"})
        made = self.client("iam").create_role(
            RoleName=unique("role"), AssumeRolePolicyDocument=document
        )
        return str(made["Role"]["Arn"])

    def function(self, source: str, **settings: Any) -> str:
        """A new function of one module with `handler(event, context)`; its name."""
        name = unique("function")
        wanted = {
            "Runtime": "python3.12",
            "Handler": "main.handler",
            "Role": self.role(),
            "Timeout": 10,
            **settings,
        }
        self.client("lambda").create_function(
            FunctionName=name, Code={"ZipFile": zipped(source)}, **wanted
        )
        return name

    def invoke(self, name: str, event: Any = None) -> dict[str, Any]:
        """The answer of an invocation with `payload` parsed."""
        answer = self.client("lambda").invoke(
            FunctionName=name, Payload=json.dumps(event), LogType="Tail"
        )
        return {**answer, "payload": json.loads(answer["Payload"].read())}

    def answers(self) -> bool:
        """Whether a request that needs other services of the emulator succeeds."""
        return bool(
            self.stack({"Queue": {"Type": "AWS::SQS::Queue"}})["StackStatus"] == "CREATE_COMPLETE"
        )

    def queue(self, **attributes: str) -> tuple[str, str]:
        """A new queue's URL and ARN."""
        sqs = self.client("sqs")
        url = sqs.create_queue(QueueName=unique("queue"), Attributes=attributes)["QueueUrl"]
        return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])[
            "Attributes"
        ]["QueueArn"]

    def open_queue(self) -> tuple[str, str]:
        """A queue that EventBridge may send to."""
        url, arn = self.queue()
        policy = allow("sqs:SendMessage", arn, Principal={"Service": "events.amazonaws.com"})
        self.client("sqs").set_queue_attributes(
            QueueUrl=url, Attributes={"Policy": json.dumps(policy)}
        )
        return url, arn

    def received(self, url: str, limit_s: float = 15.0) -> list[Any]:
        """Bodies (JSON) of the messages in a queue, once there are some."""
        sqs = self.client("sqs")
        found = eventually(
            lambda: sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"),
            limit_s,
        )
        return [json.loads(message["Body"]) for message in found or []]

    def stack(self, resources: Mapping[str, Any], name: str = "", **more: Any) -> dict[str, Any]:
        """Create a stack, wait until it is settled; its description."""
        stack_name = name or unique("stack")
        self.client("cloudformation").create_stack(
            StackName=stack_name, TemplateBody=template(resources, **more)
        )
        return self.settled(stack_name)

    def update(self, name: str, resources: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        self.client("cloudformation").update_stack(
            StackName=name, TemplateBody=template(resources, **more)
        )
        return self.settled(name)

    def settled(self, name: str) -> dict[str, Any]:
        """The stack once nothing happens to it any more."""

        def found() -> dict[str, Any] | None:
            stack: dict[str, Any] = self.client("cloudformation").describe_stacks(StackName=name)[
                "Stacks"
            ][0]
            return None if stack["StackStatus"].endswith("IN_PROGRESS") else stack

        return dict(eventually(found, 30.0))

    def failures(self, name: str) -> dict[str, str]:
        """Reasons of the resources of a stack that failed, by logical id."""
        events = self.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        failed = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
        return {event["LogicalResourceId"]: event["ResourceStatusReason"] for event in failed}

    def log(self, function_name: str) -> list[str]:
        """All log lines of a function; none while it has not run."""
        group = f"/aws/lambda/{function_name}"
        if not self.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            return []
        found = self.client("logs").filter_log_events(logGroupName=group)
        return [event["message"] for event in found["events"]]

    def requests(self, operation: str) -> list[dict[str, Any]]:
        """The emulator's record of the requests for an operation."""
        lines = (self.state_dir / "requests.jsonl").read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if entry["operation"] == operation]


def template(resources: Mapping[str, Any], **sections: Any) -> str:
    return json.dumps({"Resources": dict(resources), **sections})
