"""The HTTP side of SageMaker: JSON 1.1 requests and the runtime's invocations become calls of the
service.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from werkzeug.datastructures import EnvironHeaders

from shoal_local.control.authorization.authorizer import Authorizer
from shoal_local.control.http.protocol import SERIALIZATION, Answer, buffer_body, parsed_json
from shoal_local.control.routing.service_router import Exchange, unknown
from shoal_local.errors import AwsError
from shoal_local.sagemaker.service import SageMakerService
from shoal_local.sagemaker.shapes import check_request

RUNTIME_OPERATIONS = {
    "invocations": "InvokeEndpoint",
    "invocations-response-stream": "InvokeEndpointWithResponseStream",
}
INVOCATION = re.compile(rf"^/endpoints/([^/]+)/({'|'.join(RUNTIME_OPERATIONS)})$")
TARGET_PREFIX = "SageMaker."


@dataclass(frozen=True)
class Gateway:
    """Turns HTTP requests into calls of the service.

    `service_of` returns the service of the account that a request is about.
    """

    service_of: Callable[[str], SageMakerService]
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
        parameters = parsed_json(body)
        if not isinstance(parameters, dict):
            raise AwsError(SERIALIZATION, "the request is not a JSON object")
        exchange.call = call = replace(exchange.call, parameters=parameters)
        # AWS looks at the shape of a request first, and asks IAM about what has one.
        check_request(call.operation, parameters)
        service = self._authorized(exchange)
        result = service.handle(call.operation, dict(call.parameters), call.caller_arn)
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "x-amzn-RequestId": str(uuid.uuid4()),
        }
        return Answer(200, headers, json.dumps(result).encode())

    def _invoke(self, exchange: Exchange, body: bytes) -> Answer:
        invoke = self._authorized(exchange).invocations[exchange.call.operation]
        name = exchange.call.parameters["EndpointName"]
        sent = {key.lower(): value for key, value in EnvironHeaders(exchange.environ)}
        status, headers, answer = invoke(name, body, sent)
        headers = {"x-amzn-RequestId": str(uuid.uuid4()), **headers}
        if isinstance(answer, bytes):
            return Answer(status, headers, answer)
        return Answer(status, headers, b"", parts=answer)

    def _authorized(self, exchange: Exchange) -> SageMakerService:
        """Return the service of the account that the request is about, if the caller may send
        it.
        """
        exchange.call = self.authorizer.with_questions(exchange.call)
        self.authorizer.check(exchange.call)
        exchange.call = self.authorizer.in_owner_account(exchange.call)
        return self.service_of(exchange.call.account)
