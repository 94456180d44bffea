"""A running emulator for the control plane's tests, and short ways to create roles, functions,
queues and stacks in it.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

ROOT = Path(__file__).resolve().parents[3]
ACCOUNT_ID = "111122223333"
REGION = "us-east-1"
COUNTER = itertools.count()


@contextmanager
def running(
    state_dir: Path, environment: Mapping[str, str] | None = None, *options: str
) -> Iterator[Account]:
    """Yield the account of an emulator that is stopped at the end, and must end with exit
    code 0.
    """
    process, ready = start(state_dir, *options, environment=environment)
    try:
        yield Account(ready["endpoint"], state_dir)
    finally:
        process.terminate()
        code = process.wait(20)
    assert code == 0


def start(
    state_dir: Path, *options: str, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start an emulator in a process of its own and return its ready line."""
    command = [
        sys.executable,
        "-m",
        "shoal_local",
        "serve",
        "--state-dir",
        str(state_dir),
        "--account",
        ACCOUNT_ID,
        "--schedule-speed",
        "60",
    ]
    process = subprocess.Popen(
        [*command, *options], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, dict(json.loads(process.stdout.readline()))


def eventually(look: Callable[[], Any], limit_s: float = 15.0) -> Any:
    """Call `look` until its answer is true, and return that; return the last answer when the limit
    is over.
    """
    deadline = time.monotonic() + limit_s
    while not (answer := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def unique(stem: str) -> str:
    return f"{stem}-{next(COUNTER)}"


def zipped(source: str, name: str = "main.py") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, source)
    return buffer.getvalue()


def allow(actions: str | list[str], resource: str = "*", **elements: Any) -> dict[str, Any]:
    """Return a policy document with one statement."""
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": actions, "Resource": resource, **elements}],
    }


def trust(principal: Mapping[str, Any]) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@dataclass
class Account:
    """The one account of a running emulator."""

    endpoint: str
    state_dir: Path
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self.client_of(service, "test", "test")
        return self._clients[service]

    def client_of(self, service: str, key: str, secret: str, token: str | None = None) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service,
            region_name=REGION,
            endpoint_url=self.endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=token,
        )

    def as_role(self, service: str, role_arn: str) -> Any:
        """Return a client with the role's credentials."""
        credentials = self.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="tests")[
            "Credentials"
        ]
        return self.client_of(
            service,
            credentials["AccessKeyId"],
            credentials["SecretAccessKey"],
            credentials["SessionToken"],
        )

    def role(self, principal: Mapping[str, Any] | None = None) -> str:
        """Create a role and return its ARN; functions may assume it unless `principal` says
        otherwise.
        """
        document = trust(principal or {"Service": "lambda.amazonaws.com"})
        role = self.client("iam").create_role(
            RoleName=unique("role"), AssumeRolePolicyDocument=document
        )
        return str(role["Role"]["Arn"])

    def function(self, source: str, **settings: Any) -> str:
        """Create a function of one module with `handler(event, context)`, and return its name."""
        name = unique("function")
        request = {
            "Runtime": "python3.12",
            "Handler": "main.handler",
            "Role": self.role(),
            "Timeout": 10,
            **settings,
        }
        self.client("lambda").create_function(
            FunctionName=name, Code={"ZipFile": zipped(source)}, **request
        )
        return name

    def invoke(self, name: str, event: Any = None) -> dict[str, Any]:
        """Return the answer of an invocation with `payload` parsed."""
        answer = self.client("lambda").invoke(
            FunctionName=name, Payload=json.dumps(event), LogType="Tail"
        )
        return {**answer, "payload": json.loads(answer["Payload"].read())}

    def answers(self) -> bool:
        """Return whether a request succeeds that needs other services of the emulator."""
        return bool(
            self.stack({"Queue": {"Type": "AWS::SQS::Queue"}})["StackStatus"] == "CREATE_COMPLETE"
        )

    def queue(self, **attributes: str) -> tuple[str, str]:
        """Create a queue and return its URL and ARN."""
        sqs = self.client("sqs")
        url = sqs.create_queue(QueueName=unique("queue"), Attributes=attributes)["QueueUrl"]
        return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])[
            "Attributes"
        ]["QueueArn"]

    def open_queue(self) -> tuple[str, str]:
        """Create a queue that EventBridge may send to."""
        url, arn = self.queue()
        policy = allow("sqs:SendMessage", arn, Principal={"Service": "events.amazonaws.com"})
        self.client("sqs").set_queue_attributes(
            QueueUrl=url, Attributes={"Policy": json.dumps(policy)}
        )
        return url, arn

    def received(self, url: str, limit_s: float = 15.0) -> list[Any]:
        """Return the bodies (JSON) of the messages in a queue, once there are some."""
        sqs = self.client("sqs")
        messages = eventually(
            lambda: sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"),
            limit_s,
        )
        return [json.loads(message["Body"]) for message in messages or []]

    def stack(self, resources: Mapping[str, Any], name: str = "", **options: Any) -> dict[str, Any]:
        """Create a stack, wait until it is settled, and return its description."""
        stack_name = name or unique("stack")
        self.client("cloudformation").create_stack(
            StackName=stack_name, TemplateBody=template(resources, **options)
        )
        return self.settled(stack_name)

    def update(self, name: str, resources: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        self.client("cloudformation").update_stack(
            StackName=name, TemplateBody=template(resources, **options)
        )
        return self.settled(name)

    def settled(self, name: str) -> dict[str, Any]:
        """Return the stack once nothing happens to it any more."""

        def found() -> dict[str, Any] | None:
            stack: dict[str, Any] = self.client("cloudformation").describe_stacks(StackName=name)[
                "Stacks"
            ][0]
            return None if stack["StackStatus"].endswith("IN_PROGRESS") else stack

        return dict(eventually(found, 30.0))

    def failures(self, name: str) -> dict[str, str]:
        """Return the reasons of the resources of a stack that failed, by logical id."""
        events = self.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        failures = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
        return {event["LogicalResourceId"]: event["ResourceStatusReason"] for event in failures}

    def log(self, function_name: str) -> list[str]:
        """Return all log lines of a function; none while it has not run."""
        group = f"/aws/lambda/{function_name}"
        if not self.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            return []
        events = self.client("logs").filter_log_events(logGroupName=group)
        return [event["message"] for event in events["events"]]

    def requests(self, operation: str) -> list[dict[str, Any]]:
        """Return the emulator's record of the requests for an operation."""
        lines = (self.state_dir / "requests.jsonl").read_text().splitlines()
        return [entry for entry in map(json.loads, lines) if entry["operation"] == operation]

    def environment(self) -> dict[str, str]:
        """Return the environment in which AWS programs speak to this emulator, with dummy
        credentials and nothing else of AWS.
        """
        settings = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }
        credentials = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        return {"PATH": os.environ["PATH"], "HOME": str(self.state_dir), **settings, **credentials}


def template(resources: Mapping[str, Any], **sections: Any) -> str:
    return json.dumps({"Resources": dict(resources), **sections})
