"""The AWS protocols (query, JSON, REST), requests in, answers out; and the questions that AWS asks
IAM before it acts.

An HTTP request becomes an `ApiCall`. A result or an AwsError becomes the HTTP answer of the
protocol, checked against botocore's output shape.
"""

import http.client
import io
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from botocore.exceptions import UnknownServiceError
from botocore.model import StructureShape
from botocore.validate import ParamValidator
from moto.core.model import OperationModel
from moto.core.parse import PROTOCOL_PARSERS, RequestDict, RequestParserError
from moto.core.request import Request, determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.exceptions import MethodNotAllowed, NotFound

from shoal_local.errors import AwsError

ContextValue = str | list[str]
ANY = "*"
OWNER = "aws:ResourceAccount"
"""Condition key of the account that owns the resource, if its ARN does not name that."""


def account_of(arn: str) -> str:
    """Return the account in an ARN, empty for an ARN without one, such as those of S3."""
    parts = arn.split(":", 5)
    return parts[4] if len(parts) > 5 else ""


@dataclass(frozen=True)
class Question:
    """One action on one resource.

    `action` is written as in a policy (`s3:GetObject`), `resource` is an ARN or `*`, and `context`
    has condition keys and their values.
    """

    action: str
    resource: str = ANY
    context: Mapping[str, ContextValue] = field(default_factory=dict)
    source: str = ""
    """The documentation of what AWS does on the caller's behalf, if it asks this for that."""

    @property
    def service(self) -> str:
        return self.action.partition(":")[0]

    def as_json(self) -> dict[str, Any]:
        """Return the question as requests.jsonl has it."""
        return (
            {"action": self.action, "resource": self.resource}
            | ({"context": dict(self.context)} if self.context else {})
            | ({"implied": self.source} if self.source else {})
        )


SIGNING_NAMES = {
    "monitoring": "cloudwatch",
    "eventbridge": "events",
    "states": "stepfunctions",
    "servicequotas": "service-quotas",
}
SERIALIZATION = "SerializationException"
UNPARSED = (
    *(RequestParserError, ValueError, TypeError, AttributeError, OverflowError, RuntimeError),
)
"""Errors of moto's parser, which trusts the types it is given."""
BLOCK = 256 * 1024
CREDENTIAL = re.compile(
    r"Credential=(?P<key>[^/,\s]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request"
)


@dataclass(frozen=True)
class Signature:
    """The credential scope of a request, which `signatures` checks."""

    access_key_id: str
    region: str
    service: str


@dataclass(frozen=True)
class ApiCall:
    """One request to the API.

    `service` is boto3's name. `operation` is "" when the service's model has no such operation.
    """

    service: str
    operation: str
    region: str
    caller_arn: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    access_key_id: str = ""
    questions: tuple[Question, ...] | None = ()
    """The questions to IAM about it; None when they are not known (see `authorization`)."""
    account: str = ""
    """The account that it acts in, once that is known: not the caller's when it is about another
    account's resource.
    """
    received: int = 0
    """Bytes of the request's body."""


Guard = Callable[[ApiCall], None]
"""Raises AwsError to refuse a request before its service answers it."""
Handlers = Mapping[str, Callable[[ApiCall], Mapping[str, Any]]]
"""What answers a service's operations, by their names."""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, ready to be written."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    parts: Iterable[bytes] | None = None
    """Sent as they come in place of the body, if set; `close()` is called at the end."""


def signature_of(environ: Mapping[str, Any]) -> Signature | None:
    """Return the credential scope from the Authorization header; None for an unsigned request."""
    match = CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    if not match:
        return None
    service = match["service"].lower()
    return Signature(match["key"], match["region"], SIGNING_NAMES.get(service, service))


def buffer_body(environ: dict[str, Any]) -> bytes:
    """Read the body once and put it back, so that it can be read again."""
    length = environ.get("CONTENT_LENGTH")
    if length:
        body = environ["wsgi.input"].read(int(length))
    else:
        body = environ["wsgi.input"].read() if environ.get("wsgi.input_terminated") else b""
        environ["CONTENT_LENGTH"] = str(len(body))
    environ["wsgi.input"] = io.BytesIO(body)
    return bytes(body)


def discard_body(environ: Mapping[str, Any]) -> None:
    """Read the body, whatever its size, and keep nothing of it."""
    remaining = int(environ.get("CONTENT_LENGTH") or 0)
    while remaining and (block := environ["wsgi.input"].read(min(remaining, BLOCK))):
        remaining -= len(block)


@dataclass(frozen=True)
class Operation:
    """An operation of a service's botocore model, and the parameters in the request's path."""

    model: OperationModel
    path_parameters: Mapping[str, Any]
    protocol: str

    @property
    def name(self) -> str:
        return str(self.model.name)

    def parse(self, request: Request, body: bytes | None) -> dict[str, Any]:
        """Return the parameters as boto3 takes them; raise AwsError for a malformed body.

        Without a body, which may be too large to read, they are those of path, query and headers.
        """
        if body is not None and "json" in self.protocol:
            parsed_json(body)
        parts: RequestDict = {
            "method": request.method,
            "values": request.args if body is None else request.values,
            "headers": request.headers,
            "body": body or b"",
            "url_path": request.path,
            "url_params": dict(self.path_parameters),
        }
        try:
            parsed = PROTOCOL_PARSERS[self.protocol](self.model).parse(parts)
        except UNPARSED as error:
            raise AwsError(SERIALIZATION, f"the request cannot be parsed: {error}") from error
        if parsed is None:
            raise AwsError(SERIALIZATION, "the request is not a JSON object")
        return dict(parsed)

    def check(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters without nulls.

        Raises AwsError ValidationException when some are missing, unknown or of a wrong type. boto3
        checks that too, other clients do not.
        """
        members: Mapping[str, Any] = _without_nulls(parameters)
        if mistakes := _mistakes(members, self.model.input_shape):
            raise AwsError("ValidationException", mistakes)
        return members

    def refuse_other_query(self, request: Request) -> None:
        """Raise AwsError for a query that the operation has no parameters in.

        AWS ignores it. moto prefers it to the body, about which the caller's policies were asked.
        """
        if "json" not in self.protocol:
            return
        shape = self.model.input_shape
        known = set(parse_qs(urlsplit(self.model.http.get("requestUri", "")).query))
        for name, member in (shape.members if shape is not None else {}).items():
            if member.serialization.get("location") == "querystring":
                known.add(member.serialization.get("name", name))
        if other := sorted(set(request.args) - known):
            message = f"{self.name} has no parameter {other[0]} in its URL"
            raise AwsError("ValidationException", message)

    def without_nulls(self, body: bytes) -> bytes:
        """Return a body for moto, which takes a null in a structure's place for a structure."""
        return (
            json.dumps(_without_nulls(json.loads(body))).encode()
            if "json" in self.protocol and b"null" in body
            else body
        )

    def answer(self, result: Mapping[str, Any]) -> Answer:
        """Return the result as the protocol has it; a 500 if it does not fit botocore's shape."""
        if mistakes := _mistakes(dict(result), self.model.output_shape):
            what = f"answer of {self.name} is not of its shape: {mistakes}"
            raise AwsError("InternalFailure", what, 500)
        service = self.model.service_model.service_name
        response = get_serializer_class(service, self.protocol)(self.model).serialize(result)
        body = response["body"] or ""
        return Answer(
            self._status(result, response["status_code"]),
            {**response["headers"], "x-amzn-RequestId": str(uuid.uuid4())},
            body.encode() if isinstance(body, str) else bytes(body),
        )

    def _status(self, result: Mapping[str, Any], otherwise: int) -> int:
        """Return the HTTP status; a few outputs (of Lambda Invoke) carry it as a member."""
        shape = self.model.output_shape
        for name, member in (shape.members if shape is not None else {}).items():
            if member.serialization.get("location") == "statusCode":
                return int(result.get(name, otherwise))
        return int(otherwise)


def _mistakes(value: Mapping[str, Any], shape: StructureShape | None) -> str:
    """Return botocore's report on a value that is not of the shape; else nothing."""
    if shape is None:
        return ""
    return str(ParamValidator().validate(value, shape).generate_report())


def _without_nulls(value: Any) -> Any:
    """Drop JSON's null, which means that a member is not there."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return [_without_nulls(member) for member in value] if isinstance(value, list) else value


def parsed_json(body: bytes) -> Any:
    """Return a body's JSON; raise AwsError for none, which moto's parser takes for an empty one."""
    try:
        return json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise AwsError(SERIALIZATION, f"the request is not JSON: {error}") from error


def match_operation(service: str, environ: dict[str, Any]) -> tuple[Operation | None, Request]:
    """Return the operation of a request, or None; query protocols may consume the body."""
    request = Request(environ)
    try:
        model, path_parameters = get_service_router(service).match(request)
        protocol = determine_request_protocol(get_service_model(service), request.content_type)
    except (
        NotFound,
        MethodNotAllowed,
        UnknownServiceError,
        NotImplementedError,  # a protocol that the service does not speak
    ):
        return None, request
    return Operation(model, path_parameters, protocol), request


def error_answer(error: AwsError, protocol: str = "json") -> Answer:
    """Return the error in the protocol's form: `__type` for JSON, an Error element for XML."""
    request_id = str(uuid.uuid4())
    headers = {"x-amzn-RequestId": request_id, "x-amzn-ErrorType": error.code}
    if protocol in {"json", "rest-json"}:
        body = json.dumps(
            {"__type": error.code, "message": error.message, "Message": error.message}
        )
        headers["Content-Type"] = "application/x-amz-json-1.1"
        return Answer(error.http_status, headers, body.encode())
    inner = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    upper, lower = (f"<{name}>{request_id}</{name}>" for name in ("RequestID", "RequestId"))
    if protocol == "ec2":
        body = f"<Response><Errors><Error>{inner}</Error></Errors>{upper}</Response>"
    elif protocol == "rest-xml":
        body = f"<Error>{inner}{lower}</Error>"
    else:
        typed = f"<Error><Type>Sender</Type>{inner}</Error>"
        body = f"<ErrorResponse>{typed}{lower}</ErrorResponse>"
    headers["Content-Type"] = "text/xml"
    return Answer(error.http_status, headers, body.encode())


def protocol_of(environ: Mapping[str, Any]) -> str:
    """Return the protocol of a request without a known operation, guessed from its content type."""
    content_type = environ.get("CONTENT_TYPE", "")
    if content_type.startswith("application/x-www-form-urlencoded"):
        signature = signature_of(environ)
        return "ec2" if signature is not None and signature.service == "ec2" else "query"
    return "json" if "json" in content_type or environ.get("HTTP_X_AMZ_TARGET") else "rest-xml"


def write(answer: Answer, start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Send an answer."""
    headers = [(name, str(value)) for name, value in answer.headers.items()]
    if answer.parts is None:
        headers.append(("Content-Length", str(len(answer.body))))
    reason = http.client.responses.get(answer.status, "Unknown")
    start_response(f"{answer.status} {reason}", headers)
    return [answer.body] if answer.parts is None else answer.parts
