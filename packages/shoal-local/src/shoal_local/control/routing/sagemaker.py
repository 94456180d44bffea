"""The HTTP side of SageMaker: JSON 1.1 requests and the runtime's invocations become calls of the
service.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import unquote

from shoal_local.control.authorization.authorizer import Authorizer
from shoal_local.control.http.protocol import Answer, ApiCall, error_answer
from shoal_local.control.routing.service_router import Reply
from shoal_local.errors import AwsError

RUNTIME_OPERATIONS = {
    "invocations": "InvokeEndpoint",
    "invocations-response-stream": "InvokeEndpointWithResponseStream",
}
INVOCATION = re.compile(rf"^/endpoints/([^/]+)/({'|'.join(RUNTIME_OPERATIONS)})$")
TARGET_PREFIX = "SageMaker."


class SageMaker(Protocol):
    """What the SageMaker side provides (`shoal_local.sagemaker.service.SageMakerService`)."""

    @property
    def operations(self) -> Collection[str]: ...

    def check(self, operation: str, request: dict[str, Any]) -> None: ...

    def handle(
        self, operation: str, request: dict[str, Any], caller_arn: str
    ) -> dict[str, Any]: ...

    def invoke_endpoint(
        self, name: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]: ...

    def invoke_endpoint_with_response_stream(
        self, name: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, Mapping[str, str], bytes | Iterator[bytes]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Gateway:
    """Turns HTTP requests into calls of the service.

    `service_of` returns the service of the account that a request is about.
    """

    service_of: Callable[[str], SageMaker]
    authorizer: Authorizer

    def __call__(self, environ: dict[str, Any], call: ApiCall, body: bytes) -> Reply:
        invocation = INVOCATION.match(environ.get("PATH_INFO", ""))
        if invocation and environ["REQUEST_METHOD"] == "POST":
            operation = RUNTIME_OPERATIONS[invocation.group(2)]
            return self._invoke(environ, call, operation, unquote(invocation.group(1)), body)
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        operation = target.removeprefix(TARGET_PREFIX)
        if not target.startswith(TARGET_PREFIX):
            refusal = AwsError(
                "UnknownOperationException",
                f"Shoal's emulator does not emulate {environ.get('PATH_INFO')} of SageMaker",
            )
            return Reply(call, error_answer(refusal), refusal.code)
        return self._handle(call, operation, body)

    def _handle(self, call: ApiCall, operation: str, body: bytes) -> Reply:
        call = replace(call, operation=operation)
        try:
            call = replace(call, parameters=parsed_body(body))
            # AWS looks at the shape of a request first, and asks IAM about what has one.
            self.service_of(self.authorizer.identity.account).check(
                operation, dict(call.parameters)
            )
            call = self.authorizer.with_questions(call)
            self.authorizer.check(call)
            call = self.authorizer.in_owner_account(call)
            result = self.service_of(call.account).handle(
                operation, dict(call.parameters), call.caller_arn
            )
        except AwsError as error:
            return Reply(call, error_answer(error), error.code)
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "x-amzn-RequestId": str(uuid.uuid4()),
        }
        return Reply(call, Answer(200, headers, json.dumps(result, default=as_timestamp).encode()))

    def _invoke(
        self, environ: Mapping[str, Any], call: ApiCall, operation: str, name: str, body: bytes
    ) -> Reply:
        call = self.authorizer.with_questions(
            replace(call, operation=operation, parameters={"EndpointName": name})
        )
        try:
            self.authorizer.check(call)
            call = self.authorizer.in_owner_account(call)
            service = self.service_of(call.account)
            invoke = _operation_of(service, operation)
            status, headers, answer = invoke(name, body, request_headers(environ))
        except AwsError as error:
            return Reply(call, error_answer(error, "rest-json"), error.code)
        headers = {"x-amzn-RequestId": str(uuid.uuid4()), **headers}
        if isinstance(answer, bytes):
            return Reply(call, Answer(status, headers, answer))
        return Reply(call, Answer(status, headers, b"", parts=answer))


def _operation_of(
    service: SageMaker, operation: str
) -> Callable[[str, bytes, dict[str, str]], tuple[int, Mapping[str, str], bytes | Iterator[bytes]]]:
    if operation == "InvokeEndpoint":
        return service.invoke_endpoint
    return service.invoke_endpoint_with_response_stream


def parsed_body(body: bytes) -> dict[str, Any]:
    """Return the request's JSON object; raise AwsError SerializationException when it is none."""
    try:
        parsed = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise AwsError("SerializationException", f"the request is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise AwsError("SerializationException", "the request is not a JSON object")
    return parsed


def request_headers(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the HTTP headers of a WSGI request, in lower case."""
    headers = {
        key[5:].replace("_", "-").lower(): str(value)
        for key, value in environ.items()
        if key.startswith("HTTP_")
    }
    content_type = {"content-type": environ["CONTENT_TYPE"]} if environ.get("CONTENT_TYPE") else {}
    return {**headers, **content_type}


def as_timestamp(value: Any) -> float:
    """Return a time as seconds since the epoch, as JSON 1.1 has it."""
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(f"{type(value).__name__} has no JSON form")
