"""Attribute every HTTP request to a caller and a service, let a service here or moto answer it, and
write it down.

A service that is complete here refuses the operations that it lacks; for the others moto answers
them. Every other service is refused by name, so that no request leaves this process for AWS.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from wsgiref.util import FileWrapper

from moto.core.request import Request

from shoal_local.control.authorization.authorizer import Authorizer
from shoal_local.control.http.guards import Guard
from shoal_local.control.http.loopback_guard import BLOCK, DEFAULT_MAX_BYTES, inflate, too_large
from shoal_local.control.http.protocol import (
    Answer,
    ApiCall,
    Operation,
    Signature,
    buffer_body,
    discard_body,
    error_answer,
    match_operation,
    protocol_of,
    signature_of,
    status_line,
)
from shoal_local.control.http.request_log import RequestLog
from shoal_local.control.http.signed_chunks import decode_chunks
from shoal_local.control.identity.identity import Identity
from shoal_local.errors import AwsError

Handler = Callable[[ApiCall], Mapping[str, Any]]
StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

MOTO_SERVICES = frozenset(
    {
        "s3",
        "iam",
        "sts",
        "kms",
        "ec2",
        "ecr",
        "sqs",
        "sns",
        "ssm",
        "secretsmanager",
        "events",
        "logs",
        "cloudwatch",
        "budgets",
    }
)
# Services whose things only work in the regions that the emulator has: those kept here, and moto's
# rules, alarms and logs, which are evaluated there only.
OF_ONE_REGION = frozenset(
    {
        "sagemaker",
        "cloudformation",
        "lambda",
        "scheduler",
        "fsx",
        "codebuild",
        "application-autoscaling",
        "events",
        "cloudwatch",
        "logs",
    }
)
OWN_PATH = "/_shoal/"
# moto's own control panel and its imitation of instance metadata are no part of the AWS API.
CLOSED_PATHS = ("/moto-api", "/latest/meta-data/", "/latest/api/", "/favicon.ico")
# Requests that carry an object's bytes, which are not read into memory.
STREAMED = frozenset({"PutObject", "UploadPart"})
ANONYMOUS = Signature("", "us-east-1", "s3")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """The operations of a service that are answered here.

    - `complete`: a missing operation is refused, not left to moto.
    - `guards`: by operation, asked in turn; `*` is every operation.
    - `keeps`: the operations only keep what they are told, and nothing follows from it. The
      coverage page says so.
    """

    operations: Mapping[str, Handler]
    complete: bool = False
    keeps: bool = False
    guards: Mapping[str, tuple[Guard, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """The answer to a request, and the error code for the log."""

    call: ApiCall
    answer: Answer
    error: str | None = None


RawHandler = Callable[[dict[str, Any], ApiCall, bytes], Reply]


@dataclass
class ServiceRouter:
    """A WSGI application for the requests of one account's callers to one region.

    - `raw`: services that take requests whole, by name.
    - `paths`: answers the emulator's own URLs.
    - `services_of`: returns the services of the account that a request is about.
    - `regions`: those that the emulator has, for a refusal's words.
    """

    identity: Identity
    requests: RequestLog
    moto: WsgiApp
    services: Mapping[str, Service]
    authorizer: Authorizer
    services_of: Callable[[str], Mapping[str, Service]]
    raw: Mapping[str, RawHandler] = field(default_factory=dict)
    paths: Callable[[dict[str, Any]], Answer | None] = lambda _environ: None
    regions: Sequence[str] = ()

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if is_own_path(environ):
            answer = self.paths(environ)
            return write(
                answer or error_answer(AwsError("NotFound", f"the emulator has no {path}", 404)),
                start_response,
            )
        signature = signature_of(environ) or ANONYMOUS
        caller, received = (
            self.identity.caller_arn(signature.access_key_id),
            int(environ.get("CONTENT_LENGTH") or 0),
        )
        call = ApiCall(
            signature.service,
            "",
            signature.region,
            caller,
            {},
            signature.access_key_id,
            received=received,
        )
        try:
            return self._answer(environ, start_response, call)
        except Exception as error:
            log.exception("request failed: %s %s", call.service, path)
            failure = AwsError("InternalFailure", f"{type(error).__name__}: {error}", 500)
            self.requests.record(call, 500, failure.code)
            return write(error_answer(failure, protocol_of(environ)), start_response)

    def _answer(
        self, environ: dict[str, Any], start_response: StartResponse, call: ApiCall
    ) -> Iterable[bytes]:
        if call.service in OF_ONE_REGION and call.region != self.identity.region:
            buffer_body(environ)  # so that the next request on the connection is found
            return self._refuse(
                environ,
                start_response,
                call,
                f"Shoal's emulator has {call.service} in {', '.join(self.regions)} only, and the"
                f" request is signed for {call.region}",
            )
        if call.service in self.raw:
            return self._finish(
                self.raw[call.service](environ, call, buffer_body(environ)), start_response
            )
        service = self.services.get(call.service)
        if service is None and call.service not in MOTO_SERVICES:
            return self._refuse(
                environ,
                start_response,
                call,
                f"Shoal's emulator does not emulate the service {call.service}",
            )
        try:
            body = (
                b""
                if call.service == "s3"
                else inflate(environ, buffer_body(environ), call.service)
            )
        except AwsError as error:
            return self._finish(
                Reply(call, error_answer(error, protocol_of(environ)), error.code), start_response
            )
        operation, request = match_operation(call.service, environ)
        if operation is not None:
            return self._perform(environ, start_response, call, operation, request, body)
        if service is None or not service.complete:
            return self._unknown(environ, start_response, call)
        what = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        return self._refuse(
            environ, start_response, call, f"{call.service} has no operation {what}"
        )

    def _perform(
        self,
        environ: dict[str, Any],
        start_response: StartResponse,
        call: ApiCall,
        operation: Operation,
        request: Request,
        body: bytes,
    ) -> Iterable[bytes]:
        """Check a request for a known operation, and answer it here or leave it to moto.

        `body` is empty for S3, whose requests are read here.
        """
        call = replace(call, operation=operation.name, parameters=dict(operation.path_parameters))
        streamed = call.service == "s3" and call.operation in STREAMED
        try:
            if call.service == "s3" and not streamed:
                body = _document(environ)
            parameters = (
                operation.parse_head(request) if streamed else operation.parse(request, body)
            )
            _check_headers(parameters)
            call = self.authorizer.with_questions(replace(call, parameters=parameters))
            self._check(call, environ if streamed else None)
            call = self.authorizer.in_owner_account(call)
            service = self.services_of(call.account).get(call.service)
            self._guard(call, service, operation, environ if streamed else None)
            result = self._native(call, service, operation)
            if result is not None:
                return self._finish(Reply(call, operation.answer(result)), start_response)
            operation.check(call.parameters)  # moto trusts the values it is given
            if streamed:
                decode_chunks(environ)
        except AwsError as error:
            return self._finish(Reply(call, operation.error(error), error.code), start_response)
        if not streamed:
            body = operation.without_nulls(body)
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        return self._moto(environ, start_response, call)

    def _check(self, call: ApiCall, unread: dict[str, Any] | None) -> None:
        """Raise AwsError when the caller may not send the request.

        Its body is read all the same, so that the next request on the connection is found.
        """
        try:
            self.authorizer.check(call)
        except AwsError:
            if unread is not None:
                discard_body(unread)
            raise

    @staticmethod
    def _guard(
        call: ApiCall,
        service: Service | None,
        operation: Operation,
        unread: dict[str, Any] | None,
    ) -> None:
        """Raise AwsError when a guard refuses the request; its body is read all the same."""
        guards = service.guards if service else {}
        try:
            for guard in (*guards.get("*", ()), *guards.get(call.operation, ())):
                guard(replace(call, parameters=operation.check(call.parameters)))
        except AwsError:
            if unread is not None:
                discard_body(unread)
            raise

    def _unknown(
        self, environ: dict[str, Any], start_response: StartResponse, call: ApiCall
    ) -> Iterable[bytes]:
        """Leave a request that botocore's model does not know to moto, if the caller may do
        everything.
        """
        call = self.authorizer.with_questions(call)
        try:
            self._check(call, environ)
        except AwsError as refusal:
            return self._finish(
                Reply(call, error_answer(refusal, protocol_of(environ)), refusal.code),
                start_response,
            )
        return self._moto(environ, start_response, call)

    def _refuse(
        self, environ: dict[str, Any], start_response: StartResponse, call: ApiCall, reason: str
    ) -> Iterable[bytes]:
        refusal = AwsError("UnknownOperationException", reason)
        return self._finish(
            Reply(call, error_answer(refusal, protocol_of(environ)), refusal.code), start_response
        )

    @staticmethod
    def _native(
        call: ApiCall, service: Service | None, operation: Operation
    ) -> Mapping[str, Any] | None:
        """Return the result of an operation that is answered here; None when it is moto's."""
        if service is None:
            return None
        handler = service.operations.get(call.operation)
        if handler is None and service.complete:
            raise AwsError(
                "UnknownOperationException",
                f"Shoal's emulator does not emulate {call.service} {call.operation}",
            )
        if handler is None:
            return None
        return handler(replace(call, parameters=operation.check(call.parameters)))

    def _moto(
        self, environ: dict[str, Any], start_response: StartResponse, call: ApiCall
    ) -> Iterable[bytes]:
        status: list[int] = []
        lengths: list[int] = []

        def started(line: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            status.append(int(line.split(" ", 1)[0]))
            lengths.extend(
                int(value) for name, value in headers if name.lower() == "content-length"
            )
            return start_response(line, headers, *rest)

        # replaces whatever the client sent by that name
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = call.account or self.identity.account
        try:
            response = self.moto(environ, started)
        except Exception as error:
            if call.questions is not None and not isinstance(error, NotImplementedError):
                # An emulated operation broke: a 500, which nobody takes for a mistake of theirs.
                raise
            log.exception("moto cannot answer %s %s", call.service, call.operation)
            return self._refuse(
                environ,
                start_response,
                call,
                f"Shoal's emulator does not emulate {call.service} {call.operation}",
            )
        # the answer to HEAD has the length of a body that it leaves out
        has_body = lengths and environ["REQUEST_METHOD"] != "HEAD"
        self.requests.record(call, status[0] if status else 0, sent=lengths[0] if has_body else 0)
        return response

    def _finish(self, reply: Reply, start_response: StartResponse) -> Iterable[bytes]:
        self.requests.record(
            reply.call, reply.answer.status, reply.error, sent=len(reply.answer.body)
        )
        return write(reply.answer, start_response)


def _check_headers(parameters: Mapping[str, Any]) -> None:
    """Raise AwsError if a header that S3 is to answer with (`response-content-type`) has a line
    break.
    """
    for name, value in parameters.items():
        if name.startswith("Response") and isinstance(value, str) and not value.isprintable():
            raise AwsError("InvalidArgument", f"{name} is no value of a header")


def is_own_path(environ: Mapping[str, Any]) -> bool:
    """Return whether the URL is the emulator's or moto's own, and no part of the AWS API."""
    return str(environ.get("PATH_INFO", "")).startswith((OWN_PATH, *CLOSED_PATHS))


def _document(environ: dict[str, Any]) -> bytes:
    """Return the body of a request to S3 that does not upload an object.

    Raises AwsError when it is too large for memory.
    """
    if int(environ.get("CONTENT_LENGTH") or 0) > DEFAULT_MAX_BYTES:
        raise too_large("s3", DEFAULT_MAX_BYTES)
    return buffer_body(environ)


def write(answer: Answer, start_response: StartResponse) -> Iterable[bytes]:
    """Send an answer."""
    headers = [(name, str(value)) for name, value in answer.headers.items()]
    if answer.parts is not None:
        start_response(status_line(answer.status), headers)
        return answer.parts
    length = answer.file.stat().st_size if answer.file else len(answer.body)
    start_response(status_line(answer.status), [*headers, ("Content-Length", str(length))])
    return FileWrapper(answer.file.open("rb"), BLOCK) if answer.file else [answer.body]
