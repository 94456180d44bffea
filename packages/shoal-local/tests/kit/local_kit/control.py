"""A running emulator for the control plane's tests, and short ways to create roles, functions,
queues and stacks in it.
"""

import http.client
import io
import itertools
import json
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from shoal_local.testing import LocalAccount, emulator, in_process

ROOT = Path(__file__).resolve().parents[5]
COUNTER = itertools.count()


@contextmanager
def running(
    state_dir: Path, *options: str, environment: Mapping[str, str] | None = None
) -> "Iterator[Account]":
    """Yield the account of an emulator on which schedules run fast."""
    options = ("--schedule-speed", "60", *options)
    with emulator(state_dir, *options, environment=environment) as local:
        yield Account(local.account.endpoint, state_dir)


def eventually(look: Callable[[], Any], limit_s: float = 60.0) -> Any:
    """Call `look` until its answer is true, and return that; return the last answer when the limit
    is over.
    """
    deadline, pause_s = time.monotonic() + limit_s, 0.05
    while not (answer := look()) and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, 0.4)
    return answer


def still(look: Callable[[], Any], quiet_s: float = 1.5, limit_s: float = 30.0) -> Any:
    """Call `look` until its answer has been the same for `quiet_s`, and return that; raise
    TimeoutError when the limit is over.
    """
    answer, since = look(), time.monotonic()
    deadline = since + limit_s
    while time.monotonic() - since < quiet_s:
        if time.monotonic() > deadline:
            raise TimeoutError(str(answer))
        time.sleep(0.1)
        if (latest := look()) != answer:
            answer, since = latest, time.monotonic()
    return answer


def unique(stem: str) -> str:
    return f"{stem}-{next(COUNTER)}"


def refused(call: Callable[..., Any], **request: Any) -> tuple[str, str]:
    """Return the code and message with which a request is refused."""
    with pytest.raises(ClientError) as refusal:
        call(**request)
    error = refusal.value.response["Error"]
    return str(error["Code"]), str(error.get("Message"))


def zipped(source: str, name: str = "main.py") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, source)
    return buffer.getvalue()


def allow(
    actions: str | list[str], resource: str | list[str] = "*", **elements: Any
) -> dict[str, Any]:
    """Return a policy document with one statement."""
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": actions, "Resource": resource, **elements}],
    }


def resource(kind: str, *depends_on: str, **properties: Any) -> dict[str, Any]:
    """Return a resource of a template; `kind` is `SQS::Queue`, say."""
    return {"Type": f"AWS::{kind}", "DependsOn": depends_on, "Properties": properties}


def trust(principal: Mapping[str, Any]) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def put_policies(iam: Any, role: str, policies: Mapping[str, Any]) -> None:
    """Give a role inline policies by their names."""
    for name, document in policies.items():
        text = json.dumps(document)
        iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=text)


def make_role(
    iam: Any,
    name: str,
    principal: Mapping[str, Any],
    policies: Mapping[str, Any] | None = None,
    **more: Any,
) -> str:
    """Create a role with inline policies by their names, and return its ARN."""
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(principal), **more)
    put_policies(iam, name, policies or {})
    return str(role["Role"]["Arn"])


def register_version(sagemaker: Any, group: str, container: Mapping[str, Any], **more: Any) -> str:
    """Register a version of one container, which takes JSON, and return its ARN."""
    specification = {
        "Containers": [container],
        "SupportedContentTypes": ["application/json"],
        "SupportedResponseMIMETypes": ["application/json"],
    }
    answer = sagemaker.create_model_package(
        ModelPackageGroupName=group, InferenceSpecification=specification, **more
    )
    return str(answer["ModelPackageArn"])


LAMBDA = {"AssumeRolePolicyDocument": json.loads(trust({"Service": "lambda.amazonaws.com"}))}
"""What a role of functions has in a template."""


class Account(LocalAccount):
    """The one account of a running emulator."""

    def role(
        self, principal: Mapping[str, Any] | None = None, *policies: Mapping[str, Any], **more: Any
    ) -> str:
        """Create a role with inline policies and return its ARN; functions may assume it unless
        `principal` says otherwise.
        """
        by_name = {f"policy-{number}": policy for number, policy in enumerate(policies)}
        trusted = principal or {"Service": "lambda.amazonaws.com"}
        return make_role(self.client("iam"), unique("role"), trusted, by_name, **more)

    def consumer_role(self) -> str:
        """Create a role of functions that may receive from queues, and return its ARN."""
        return self.role(None, allow("sqs:*"))

    def bucket(self) -> str:
        """Create a bucket, and return its name."""
        name = unique("bucket")
        self.client("s3").create_bucket(Bucket=name)
        return name

    def function(self, source: str, file: str = "main.py", **settings: Any) -> str:
        """Create a function of one module with `handler(event, context)`, and return its name."""
        request = {
            "FunctionName": unique("function"),
            "Runtime": "python3.12" if file.endswith(".py") else "nodejs24.x",
            "Handler": "main.handler",
            "Timeout": 10,
            "Code": {"ZipFile": zipped(source, file)},
            **settings,
            "Role": settings.get("Role") or self.role(),
        }
        self.client("lambda").create_function(**request)
        return str(request["FunctionName"])

    def function_arn(self, name: str) -> str:
        described = self.client("lambda").get_function(FunctionName=name)
        return str(described["Configuration"]["FunctionArn"])

    def invoke(self, name: str, event: Any = None) -> dict[str, Any]:
        """Return the answer of an invocation with `payload` parsed."""
        request = {"FunctionName": name, "Payload": json.dumps(event), "LogType": "Tail"}
        answer = self.client("lambda").invoke(**request)
        return {**answer, "payload": json.loads(answer["Payload"].read())}

    def answers(self) -> bool:
        """Return whether a request succeeds that needs other services of the emulator."""
        stack = self.stack({"Queue": {"Type": "AWS::SQS::Queue"}})
        return bool(stack["StackStatus"] == "CREATE_COMPLETE")

    def queue(self, **attributes: str) -> tuple[str, str]:
        """Create a queue and return its URL and ARN."""
        sqs = self.client("sqs")
        name = unique("queue")
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url, f"arn:aws:sqs:{self.region}:{self.number}:{name}"

    def open_queue(self, service: str = "events.amazonaws.com") -> tuple[str, str]:
        """Create a queue that a service, EventBridge by default, may send to."""
        url, arn = self.queue()
        policy = allow("sqs:SendMessage", arn, Principal={"Service": service})
        attributes = {"Policy": json.dumps(policy)}
        self.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=attributes)
        return url, arn

    def received(self, url: str, limit_s: float = 15.0) -> list[Any]:
        """Return the bodies (JSON) of the messages in a queue, once there are some."""
        sqs = self.client("sqs")
        messages = eventually(
            lambda: sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"),
            limit_s,
        )
        return [json.loads(message["Body"]) for message in messages or []]

    def stack(
        self,
        resources: Mapping[str, Any],
        name: str = "",
        tags: Mapping[str, str] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Create a stack, wait until it is settled, and return its description."""
        name = name or unique("stack")
        return self._deployed("create_stack", name, template(resources, **options), tags)

    def update(
        self,
        name: str,
        resources: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Update a stack; it keeps its tags unless there are others."""
        return self._deployed("update_stack", name, template(resources, **options), tags)

    def _deployed(
        self, operation: str, name: str, body: str, tags: Mapping[str, str] | None
    ) -> dict[str, Any]:
        pairs = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
        request = {"StackName": name, "TemplateBody": body, **({"Tags": pairs} if tags else {})}
        deploy = getattr(self.client("cloudformation"), operation)
        deploy(**request, Capabilities=["CAPABILITY_NAMED_IAM"])
        return self.settled(name)

    def settled(self, name: str) -> dict[str, Any]:
        """Return the stack once nothing happens to it any more."""

        def found() -> dict[str, Any] | None:
            answer = self.client("cloudformation").describe_stacks(StackName=name)
            stack: dict[str, Any] = answer["Stacks"][0]
            return None if stack["StackStatus"].endswith("IN_PROGRESS") else stack

        stack = eventually(found)
        assert stack, f"the stack {name} is still being changed"
        return dict(stack)

    def deleted(self, stack: Mapping[str, Any]) -> str:
        """Delete a stack and return its last status."""
        self.client("cloudformation").delete_stack(StackName=stack["StackName"])
        return str(self.settled(stack["StackId"])["StackStatus"])

    def changes(self, name: str, body: str) -> list[dict[str, Any]]:
        """Return what a change set of a stack would change."""
        cloudformation, change_set = self.client("cloudformation"), {"ChangeSetName": unique("set")}
        cloudformation.create_change_set(StackName=name, **change_set, TemplateBody=body)
        answer = cloudformation.describe_change_set(StackName=name, **change_set)
        return [entry["ResourceChange"] for entry in answer["Changes"]]

    def failures(self, name: str) -> dict[str, str]:
        """Return the reasons of the resources of a stack that failed, by logical id."""
        events = self.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        failures = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
        return {event["LogicalResourceId"]: event["ResourceStatusReason"] for event in failures}

    def reasons(self, stack: str) -> str:
        """Return all reasons of a stack's events."""
        events = self.client("cloudformation").describe_stack_events(StackName=stack)
        return "\n".join(each.get("ResourceStatusReason", "") for each in events["StackEvents"])

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


def send(
    account: LocalAccount,
    method: str,
    path: str,
    headers: dict[str, str],
    body: Any = None,
    **more: Any,
) -> tuple[int, str]:
    """Send a request as it is; return status and text."""
    port = urlsplit(account.endpoint).port
    connection = http.client.HTTPConnection("localhost", port, timeout=60)
    try:
        connection.request(method, path, body, headers, **more)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    finally:
        connection.close()


def outputs(stack: Mapping[str, Any]) -> dict[str, str]:
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def template(resources: Mapping[str, Any], **sections: Any) -> str:
    return json.dumps({"Resources": dict(resources), **sections})


ACCOUNT_ID = "123456789012"
REGION = "us-east-1"
_FORBIDDEN = (
    "Traceback (most recent call last)",
    "InternalFailure",
    "Internal Server Error",
    "InternalError",
)


@dataclass(frozen=True)
class Answer:
    """What the emulator said."""

    status: int
    text: str

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.text))


@dataclass(frozen=True)
class Wire:
    """A connection per request to an emulator."""

    account: LocalAccount

    def send(
        self,
        service: str,
        method: str,
        path: str,
        body: bytes,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """The answer to a request signed for `service`."""
        signed = self.account.signed(method, path, service, body)
        return Answer(*send(self.account, method, path, {**signed, **(headers or {})}, body))

    def sagemaker(self, operation: str, request: Any) -> Answer:
        """The answer to an operation of the control plane."""
        headers = {
            "X-Amz-Target": f"SageMaker.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
        }
        return self.send("sagemaker", "POST", "/", json.dumps(request).encode(), headers)


def require_refusal_or_success(answer: Answer, of: str) -> None:
    """The user's mistake is an error of the user's (4xx) with a code and a message, never a 500 and
    never a traceback.
    """
    assert answer.status < 500, f"{of}: {answer.status} {answer.text[:2000]}"
    assert not any(word in answer.text for word in _FORBIDDEN), f"{of}: {answer.text[:2000]}"


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """The emulator's port."""
    with in_process(tmp_path_factory.mktemp("wire"), ACCOUNT_ID) as emulator:
        yield Wire(LocalAccount.of(emulator))
