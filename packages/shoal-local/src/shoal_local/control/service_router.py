"""Check each request's signature, and route it to the account of its access key, in the region that
it is signed for. There, attribute it to a caller and a service, let a service here or moto answer
it, and write it down.

A service that is complete here refuses the operations that it lacks; for the others moto answers
them. Every other service is refused by name, so that no request leaves this process for AWS.
"""

import io
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from moto.core.request import Request
from werkzeug.datastructures import Headers

from shoal_local.context import RoleCredentials
from shoal_local.control.authorization.authorizer import Authorizer
from shoal_local.control.http.guards import unknown
from shoal_local.control.http.loopback_guard import DEFAULT_MAX_BYTES, inflate, too_large
from shoal_local.control.http.protocol import (
    Answer,
    ApiCall,
    Guard,
    Handlers,
    Operation,
    Signature,
    buffer_body,
    discard_body,
    error_answer,
    match_operation,
    protocol_of,
    signature_of,
    write,
)
from shoal_local.control.http.request_handler import RequestLog
from shoal_local.control.http.signatures import check_signature, decode_chunks
from shoal_local.control.identity.identity import Identity, account_of_root
from shoal_local.errors import AwsError

StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

MOTO_SERVICES = frozenset(
    {
        *("s3", "iam", "sts", "kms", "ec2", "ecr", "sqs", "sns", "ssm", "secretsmanager"),
        *("events", "scheduler", "logs", "cloudwatch", "budgets"),
    }
)
# Services whose things only work in the regions that the emulator has: those kept here, and moto's
# rules, alarms and logs, which are evaluated there only.
OF_ONE_REGION = frozenset(
    {
        *("sagemaker", "cloudformation", "lambda", "scheduler", "fsx", "codebuild"),
        *("application-autoscaling", "events", "cloudwatch", "logs"),
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

    operations: Handlers
    complete: bool = False
    keeps: bool = False
    guards: Mapping[str, tuple[Guard, ...]] = field(default_factory=dict)


@dataclass
class Exchange:
    """A request that is being answered; `call` and `protocol` are what is known of it so far."""

    environ: dict[str, Any]
    call: ApiCall
    protocol: str


@dataclass
class ServiceRouter:
    """A WSGI application for the requests of one account's callers to one region.

    - `sagemaker`: answers SageMaker's requests, whose protocol is its own matter.
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
    sagemaker: Callable[[Exchange], Answer]
    paths: Callable[[dict[str, Any]], Answer | None]
    regions: Sequence[str]

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if is_own_path(environ):
            missing = AwsError("NotFound", f"the emulator has no {path}", 404)
            return write(self.paths(environ) or error_answer(missing), start_response)
        exchange = Exchange(environ, self._call(environ), protocol_of(environ))
        try:
            answer = self._answer(exchange)
            if answer is None:
                return self._moto(exchange, start_response)
        except AwsError as error:
            refusal = error
        except Exception as error:
            log.exception("request failed: %s %s", exchange.call.service, path)
            refusal = AwsError("InternalFailure", f"{type(error).__name__}: {error}", 500)
        else:
            self.requests.record(exchange.call, answer.status, sent=len(answer.body))
            return write(answer, start_response)
        if refusal.code != "EntityTooLarge":  # whose body nobody waits for
            discard_body(environ)  # so that the next request on the connection is found
        answer = error_answer(refusal, exchange.protocol)
        self.requests.record(exchange.call, answer.status, refusal.code, sent=len(answer.body))
        return write(answer, start_response)

    def _call(self, environ: dict[str, Any]) -> ApiCall:
        """Return the call as far as its signature tells it."""
        signature = signature_of(environ) or ANONYMOUS
        return ApiCall(
            signature.service,
            "",
            signature.region,
            self.identity.caller_arn(signature.access_key_id),
            access_key_id=signature.access_key_id,
            received=int(environ.get("CONTENT_LENGTH") or 0),
        )

    def _answer(self, exchange: Exchange) -> Answer | None:
        """Return the answer, None where it is moto's to give."""
        environ, call = exchange.environ, exchange.call
        if call.service in OF_ONE_REGION and call.region != self.identity.region:
            raise unknown(
                f"Shoal's emulator has {call.service} in {', '.join(self.regions)} only, and the"
                f" request is signed for {call.region}"
            )
        if call.service == "sagemaker":
            return self.sagemaker(exchange)
        service = self.services.get(call.service, Service({}))
        if call.service not in MOTO_SERVICES | self.services.keys():
            raise unknown(f"Shoal's emulator does not emulate the service {call.service}")
        is_s3 = call.service == "s3"
        if is_s3 and "\n" in environ["PATH_INFO"]:  # which moto's patterns of paths do not match
            raise unknown("Shoal's emulator has no objects whose key has a line break")
        body = b"" if is_s3 else inflate(environ, buffer_body(environ), call.service)
        operation, request = match_operation(call.service, environ)
        if operation is not None:
            return self._perform(exchange, operation, request, body)
        if service.complete:
            what = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
            raise unknown(f"{call.service} has no operation {what}")
        # botocore's model does not know it, so it is moto's if the caller may do everything.
        exchange.call = self.authorizer.with_questions(call)
        self.authorizer.check(exchange.call)
        return None

    def _perform(
        self, exchange: Exchange, operation: Operation, request: Request, body: bytes
    ) -> Answer | None:
        """Check a request for a known operation, and answer it here or prepare it for moto.

        `body` is empty for S3, whose requests are read here.
        """
        environ, exchange.protocol = exchange.environ, operation.protocol
        path_parameters = dict(operation.path_parameters)
        call = replace(exchange.call, operation=operation.name, parameters=path_parameters)
        exchange.call = call
        streamed = call.service == "s3" and call.operation in STREAMED
        if call.service == "s3" and not streamed:
            if int(environ.get("CONTENT_LENGTH") or 0) > DEFAULT_MAX_BYTES:
                raise too_large("s3", DEFAULT_MAX_BYTES)
            body = buffer_body(environ)
        parameters = operation.parse(request, None if streamed else body)
        # a header that S3 is to answer with (`response-content-type`) must have no line break
        for name, value in parameters.items():
            if name.startswith("Response") and isinstance(value, str) and not value.isprintable():
                raise AwsError("InvalidArgument", f"{name} is no value of a header")
        exchange.call = self.authorizer.with_questions(replace(call, parameters=parameters))
        self.authorizer.check(exchange.call)
        exchange.call = call = self.authorizer.in_owner_account(exchange.call)
        service = self.services_of(call.account).get(call.service, Service({}))
        handler = service.operations.get(call.operation)
        if handler is None and service.complete:
            raise unknown(f"Shoal's emulator does not emulate {call.service} {call.operation}")
        checked = replace(call, parameters=operation.check(call.parameters))
        for guard in (*service.guards.get("*", ()), *service.guards.get(call.operation, ())):
            guard(checked)
        if handler is not None:
            return operation.answer(handler(checked))
        operation.refuse_other_query(request)
        if streamed:
            decode_chunks(environ)
        else:
            body = operation.without_nulls(body)
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        return None

    def _moto(self, exchange: Exchange, start_response: StartResponse) -> Iterable[bytes]:
        environ, call = exchange.environ, exchange.call
        status = length = 0

        def started(line: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            nonlocal status, length
            status, length = int(line[:3]), Headers(headers).get("Content-Length", 0, int)
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
            what = f"{call.service} {call.operation}"
            raise unknown(f"Shoal's emulator does not emulate {what}") from error
        # the answer to HEAD has the length of a body that it leaves out
        sent = length if environ["REQUEST_METHOD"] != "HEAD" else 0
        self.requests.record(call, status, sent=sent)
        return response


def is_own_path(environ: Mapping[str, Any]) -> bool:
    """Return whether the URL is the emulator's or moto's own, and no part of the AWS API."""
    return str(environ.get("PATH_INFO", "")).startswith((OWN_PATH, *CLOSED_PATHS))


@dataclass(frozen=True)
class AccountRouter:
    """A WSGI application in front of the accounts' routers, by region and account.

    The emulator's own URLs are not signed; any account answers them. Requests for a region that is
    not there go to the first one, which has moto's services of every region.
    """

    regions: Mapping[str, Mapping[str, ServiceRouter]]

    @property
    def routers(self) -> Mapping[str, ServiceRouter]:
        """Return the routers of the first region by account."""
        return next(iter(self.regions.values()))

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        try:
            router = self._router(environ)
        except AwsError as refusal:
            # Its body is read all the same, so that the next request on the connection is found.
            discard_body(environ)
            return write(error_answer(refusal, protocol_of(environ)), start_response)
        return router(environ, start_response)

    def _router(self, environ: dict[str, Any]) -> ServiceRouter:
        """Return the router of the account that signed; raise AwsError if none did."""
        if is_own_path(environ):
            return next(iter(self.routers.values()))
        signature = signature_of(environ)
        router, credentials = self._holder(signature.access_key_id if signature else "")
        check_signature(environ, signature, credentials)
        region = self.regions.get(signature.region) if signature else None
        return region[router.identity.account] if region else router

    def _holder(self, access_key_id: str) -> tuple[ServiceRouter, RoleCredentials | None]:
        """Return the router of the key's account, and what belongs to the key.

        Raises AwsError InvalidClientTokenId for the root of an account that is not emulated. A key
        that no account has is the first one's to refuse.
        """
        for router in self.routers.values():
            if credentials := router.identity.credentials_of(access_key_id):
                return router, credentials
        root = account_of_root(access_key_id)
        if root is not None and root not in self.routers:
            raise AwsError(
                "InvalidClientTokenId",
                f"The emulator does not play account {root}; it plays {', '.join(self.routers)}",
                403,
            )
        return next(iter(self.routers.values())), None
