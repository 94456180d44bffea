"""Replay requests whose answers by AWS are known.

The requests are in `aws_answers.yaml`: by service and by what AWS does, the operation, its
parameters, what is done before, the code (or `ok`) that AWS answers, and where that is known from.
`$name` stands for something that `World` makes, `{repeat, times}` for a text that often, or for a
list of a value that often.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import re
import secrets
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import jmespath
import yaml
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError

ANSWERS = Path(__file__).with_name("aws_answers.yaml")
REFUSED = "UnknownOperationException"
"""The code of what shoal-local has not."""
_AS_SENT = Config(parameter_validation=False, retries={"max_attempts": 0})
_NAME = re.compile(r"\$(\w+)")


class RefusedError(Exception):
    """The server says that it has not what was asked for."""


@dataclass(frozen=True)
class Case:
    """A request, and what AWS answers to it."""

    service: str
    name: str
    call: Mapping[str, Any]
    """One operation with its parameters."""
    answer: str | int
    """The error's code, its HTTP status where S3 answers without a code, or `ok`."""
    source: str
    message: str = ""
    """Words that the error's message has, where they say more than its code."""
    before: Sequence[Mapping[str, Any]] = ()
    region: str = ""
    value: str = ""
    """A JMESPath of the answer's value, for `ok`."""
    equals: Any = None


def cases(path: Path = ANSWERS) -> list[Case]:
    """Return what the file has."""
    services = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        Case(service, name, **case) for service, by in services.items() for name, case in by.items()
    ]


@dataclass
class World:
    """Makes what requests name, each when it is first asked for."""

    session: Any = field(default_factory=boto3.Session)
    endpoint: str | None = None
    """The server's URL; without one, the environment's."""
    stem: str = field(default_factory=lambda: f"replay-{secrets.token_hex(3)}")
    """What names begin with: another for each world, so that a server can be asked twice."""
    _numbers: Any = field(default_factory=itertools.count)
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)

    def client(self, service: str, region: str = "") -> Any:
        """Return a client that sends what it is given, once."""
        if (service, region) not in self._clients:
            options = {"region_name": region} if region else {}
            self._clients[service, region] = self.session.client(
                service, config=_AS_SENT, endpoint_url=self.endpoint, **options
            )
        return self._clients[service, region]

    def unique(self) -> str:
        return f"{self.stem}-{next(self._numbers)}"

    @functools.cached_property
    def account(self) -> str:
        return str(self.client("sts").get_caller_identity()["Account"])

    @functools.cached_property
    def region(self) -> str:
        return str(self.session.region_name)

    @functools.cached_property
    def bucket(self) -> str:
        """A versioned bucket with the object `there`."""
        name, s3 = self.unique(), self.client("s3")
        s3.create_bucket(Bucket=name)
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        s3.put_object(Bucket=name, Key="there", Body=b"1")
        return name

    @functools.cached_property
    def marker(self) -> str:
        """The version of a delete marker: of the key `deleted`."""
        s3 = self.client("s3")
        s3.put_object(Bucket=self.bucket, Key="deleted", Body=b"1")
        return str(s3.delete_object(Bucket=self.bucket, Key="deleted")["VersionId"])

    @functools.cached_property
    def upload(self) -> str:
        """An upload of the key `uploaded`, without parts."""
        request = {"Bucket": self.bucket, "Key": "uploaded"}
        return str(self.client("s3").create_multipart_upload(**request)["UploadId"])

    @functools.cached_property
    def completed(self) -> str:
        """An upload that made the object `completed`; its part's ETag is that of `1`."""
        s3, request = self.client("s3"), {"Bucket": self.bucket, "Key": "completed"}
        request["UploadId"] = s3.create_multipart_upload(**request)["UploadId"]
        part = s3.upload_part(**request, PartNumber=1, Body=b"1")
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        s3.complete_multipart_upload(**request, MultipartUpload=parts)
        return request["UploadId"]

    @functools.cached_property
    def role(self) -> str:
        """A role of functions, jobs and schedules, which may receive from queues."""
        return self._role("sqs:*")

    @functools.cached_property
    def idle_role(self) -> str:
        """A role of functions that may do nothing."""
        return self._role()

    def _role(self, *actions: str) -> str:
        iam, name = self.client("iam"), self.unique()
        services = [f"{each}.amazonaws.com" for each in ("lambda", "sagemaker", "scheduler")]
        trust = _policy(Principal={"Service": services}, Action="sts:AssumeRole")
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        if actions:
            document = _policy(Action=list(actions), Resource="*")
            iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=document)
        return str(arn)

    @functools.cached_property
    def code(self) -> bytes:
        """A zip whose `main.handler` answers an event of {"bytes": n} with n characters."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            source = "def handler(event, context):\n    return 'a' * event.get('bytes', 1)\n"
            archive.writestr("main.py", source)
        return buffer.getvalue()

    @property
    def large_event(self) -> str:
        """JSON of more than 6 MB."""
        return json.dumps("a" * 6_291_455)

    @functools.cached_property
    def function(self) -> str:
        return self._function(self.role)

    @functools.cached_property
    def idle_function(self) -> str:
        """A function whose role may do nothing."""
        return self._function(self.idle_role)

    def _function(self, role: str) -> str:
        name = self.unique()
        settings = {"Runtime": "python3.12", "Handler": "main.handler", "Timeout": 20}
        code = {"ZipFile": self.code}
        client = self.client("lambda")
        client.create_function(FunctionName=name, Role=role, Code=code, **settings)
        client.get_waiter("function_active_v2").wait(FunctionName=name)
        return name

    @functools.cached_property
    def queue(self) -> str:
        """The URL of a queue without a policy."""
        return str(self.client("sqs").create_queue(QueueName=self.unique())["QueueUrl"])

    @property
    def queues(self) -> str:
        """The URL that those of queues begin with."""
        return self.queue.rpartition("/")[0]

    @property
    def queue_arn(self) -> str:
        return self._arn("sqs", self.queue.rpartition("/")[2])

    @functools.cached_property
    def new_queue_arn(self) -> str:
        """The ARN of a queue that no mapping reads."""
        name = self.unique()
        self.client("sqs").create_queue(QueueName=name)
        return self._arn("sqs", name)

    @functools.cached_property
    def topic(self) -> str:
        return str(self.client("sns").create_topic(Name=self.unique())["TopicArn"])

    @property
    def bus(self) -> str:
        return self._arn("events", "event-bus/default")

    @functools.cached_property
    def rule(self) -> str:
        """A rule without targets."""
        name, pattern = self.unique(), json.dumps({"source": ["replay"]})
        self.client("events").put_rule(Name=name, EventPattern=pattern)
        return name

    @functools.cached_property
    def versions(self) -> str:
        """A group with two model packages."""
        name, sagemaker = self.unique(), self.client("sagemaker")
        sagemaker.create_model_package_group(ModelPackageGroupName=name)
        specification = {
            "Containers": [{"Image": f"{self.account}.dkr.ecr.{self.region}.amazonaws.com/a:1"}],
            "SupportedContentTypes": ["text/csv"],
            "SupportedResponseMIMETypes": ["text/csv"],
        }
        for _ in range(2):
            sagemaker.create_model_package(
                ModelPackageGroupName=name, InferenceSpecification=specification
            )
        return name

    def _arn(self, service: str, name: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{name}"

    def filled(self, value: Any, unique: str) -> Any:
        """Return `value` with what its `$names` stand for; `$unique` is a new name per case."""
        if isinstance(value, Mapping):
            if value.keys() == {"repeat", "times"}:
                one = self.filled(value["repeat"], unique)
                return (one if isinstance(one, str) else [one]) * value["times"]
            return {key: self.filled(each, unique) for key, each in value.items()}
        if isinstance(value, list):
            return [self.filled(each, unique) for each in value]
        if not isinstance(value, str):
            return value
        if value == "$code":
            return self.code
        return _NAME.sub(
            lambda found: (
                unique if found[1] == "unique" else str(getattr(self, found[1], found[0]))
            ),
            value,
        )


def _policy(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


def replay(case: Case, world: World) -> str | None:
    """Return how the answer differs from AWS's, or None if it agrees.

    Raises RefusedError for what the server says that it has not.
    """
    unique = world.unique()
    try:
        for call in case.before:
            _send(case.service, call, world, unique)
        answer = _send(case.service, case.call, world, unique, case.region)
    except ClientError as error:
        return _difference(case, error)
    if case.answer != "ok" and case.answer != _status(answer):
        return "it succeeds"
    value = jmespath.search(case.value, answer) if case.value else case.equals
    return None if value == case.equals else f"{case.value} is {value}"


def _difference(case: Case, error: ClientError) -> str | None:
    code, status = error.response["Error"]["Code"], _status(error.response)
    message = error.response["Error"]["Message"]
    if code == REFUSED:
        raise RefusedError(message)
    expected = case.answer == (status if isinstance(case.answer, int) else code)
    same = expected and status < 500 and case.message in message
    return None if same else f"{code} ({status}): {message[:150]}"


def _send(
    service: str, call: Mapping[str, Any], world: World, unique: str, region: str = ""
) -> Mapping[str, Any]:
    """Send an operation of the service, or of another one (`sns:Publish`)."""
    ((name, parameters),) = call.items()
    other, _, operation = name.rpartition(":")
    method = getattr(world.client(other or service, region), xform_name(operation))
    answer: Mapping[str, Any] = method(**world.filled(parameters, unique))
    return answer


def _status(answer: Mapping[str, Any]) -> int:
    return int(answer["ResponseMetadata"]["HTTPStatusCode"])
