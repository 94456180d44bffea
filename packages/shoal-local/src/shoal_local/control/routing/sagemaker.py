"""The HTTP side of SageMaker: JSON 1.1 requests and the runtime's invocations become calls of the
service.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import unquote

from shoal_local.control.authorization.authorizer import Authorizer
from shoal_local.control.http.protocol import Answer, buffer_body
from shoal_local.control.routing.service_router import Exchange, unknown
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

    @property
    def invocations(
        self,
    ) -> Mapping[
        str, Callable[[str, bytes, Mapping[str, str]], tuple[int, Mapping[str, str], Any]]
    ]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Gateway:
    """Turns HTTP requests into calls of the service.

    `service_of` returns the service of the account that a request is about.
    """

    service_of: Callable[[str], SageMaker]
    authorizer: Authorizer

    def __call__(self, exchange: Exchange) -> Answer:
        environ, exchange.protocol = exchange.environ, "json"
        body = buffer_body(environ)
        invocation = INVOCATION.match(environ.get("PATH_INFO", ""))
        if invocation and environ["REQUEST_METHOD"] == "POST":
            exchange.call = replace(
                exchange.call,
                operation=RUNTIME_OPERATIONS[invocation[2]],
                parameters={"EndpointName": unquote(invocation[1])},
            )
            return self._invoke(exchange, body)
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if not target.startswith(TARGET_PREFIX):
            raise unknown(
                f"Shoal's emulator does not emulate {environ.get('PATH_INFO')} of SageMaker"
            )
        exchange.call = replace(exchange.call, operation=target.removeprefix(TARGET_PREFIX))
        return self._handle(exchange, body)

    def _handle(self, exchange: Exchange, body: bytes) -> Answer:
        exchange.call = call = replace(exchange.call, parameters=parsed_body(body))
        # AWS looks at the shape of a request first, and asks IAM about what has one.
        own_service = self.service_of(self.authorizer.identity.account)
        own_service.check(call.operation, dict(call.parameters))
        service = self._authorized(exchange)
        result = service.handle(call.operation, dict(call.parameters), call.caller_arn)
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "x-amzn-RequestId": str(uuid.uuid4()),
        }
        return Answer(200, headers, json.dumps(result, default=as_timestamp).encode())

    def _invoke(self, exchange: Exchange, body: bytes) -> Answer:
        invoke = self._authorized(exchange).invocations[exchange.call.operation]
        name = exchange.call.parameters["EndpointName"]
        status, headers, answer = invoke(name, body, request_headers(exchange.environ))
        headers = {"x-amzn-RequestId": str(uuid.uuid4()), **headers}
        if isinstance(answer, bytes):
            return Answer(status, headers, answer)
        return Answer(status, headers, b"", parts=answer)

    def _authorized(self, exchange: Exchange) -> SageMaker:
        """Return the service of the account that the request is about, if the caller may send
        it.
        """
        exchange.call = self.authorizer.with_questions(exchange.call)
        self.authorizer.check(exchange.call)
        exchange.call = self.authorizer.in_owner_account(exchange.call)
        return self.service_of(exchange.call.account)


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
