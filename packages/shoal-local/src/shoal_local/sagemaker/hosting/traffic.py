"""Which fleet answers an invocation: it is chosen by its share of the traffic.

InvokeEndpointWithResponseStream answers with events, as the container's answer arrives. An answer
above 399 is a ModelError, as for InvokeEndpoint. What goes wrong later is the last event:
ModelStreamError, or InternalStreamFailure for a failure here. Sources: API reference,
InvokeEndpointWithResponseStream; AWS's wording of a timeout: repost.aws, "invoke streaming timeout
error".
"""

import http.client
import json
import logging
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from moto.core.eventstream import EventStreamEncoder
from werkzeug.wsgi import ClosingIterator

from shoal_local.errors import AwsError
from shoal_local.sagemaker import measurements
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.server import Answer, Fleet

KIND = "endpoint"
Reply = tuple[int, dict[str, str], bytes | Iterable[bytes]]
_VARIANT = "x-Amzn-Invoked-Production-Variant"
_TARGET = "x-amzn-sagemaker-target-variant"
_ACCEPT = "x-amzn-sagemaker-accept"
_random = random.SystemRandom()
_log = logging.getLogger(__name__)


class Traffic:
    """The routes of one endpoint, and its invocations."""

    def __init__(self, core: Core, endpoint: str) -> None:
        self._core, self._endpoint = core, endpoint
        self._routes: list[tuple[Fleet, float]] = []
        self._changed = threading.Condition()

    def route(self, *routes: tuple[Fleet, float]) -> None:
        """Set the fleets and their shares of the traffic from now on."""
        with self._changed:
            self._routes = [(fleet, share) for fleet, share in routes if share > 0]

    @contextmanager
    def acquire(self) -> Iterator[Fleet]:
        """Yield a fleet for one invocation. Raise ThrottlingException if a serverless fleet is
        busy, ValidationError if there is no route.
        """
        with self._changed:
            if not self._routes:
                raise self._not_serving()
            fleets, shares = zip(*self._routes, strict=True)
            fleet = _random.choices(fleets, shares)[0]
            if fleet.max_concurrency is not None and fleet.busy >= fleet.max_concurrency:
                message = f"{fleet.max_concurrency} concurrent invocations of {fleet.name}"
                raise AwsError("ThrottlingException", f"Rate exceeded: {message}", 429)
            fleet.busy += 1
        try:
            yield fleet
        finally:
            with self._changed:
                fleet.busy -= 1
                self._changed.notify_all()

    def _not_serving(self) -> AwsError:
        """Return the ValidationError for an endpoint that is not there, or has no fleet."""
        message = f"Endpoint {self._endpoint} of account {self._core.context.account} not found."
        if document := self._core.store.get(KIND, self._endpoint):
            status = document["EndpointStatus"]
            message = f"Endpoint {self._endpoint} is not in service (status {status})."
        return AwsError("ValidationError", message)

    def retire(self, fleet: Fleet) -> None:
        """End a fleet that has no route any more, after it has answered what it was sent."""
        with self._changed:
            limit_s = self._core.settings.invocation_s
            self._changed.wait_for(lambda: not fleet.busy, limit_s)
        fleet.server.close()

    def answer(
        self, body: bytes, headers: Mapping[str, str], *, is_streamed: bool = False
    ) -> Reply:
        """Return status, headers, and the body of an invocation or a stream of events."""
        settings = self._core.settings
        limit_s = settings.stream_s if is_streamed else settings.invocation_s
        if is_streamed:
            headers = {**headers, "accept": headers.get(_ACCEPT, "*/*")}
        with ExitStack() as invocation:
            fleet = invocation.enter_context(self.acquire())
            if (variant := headers.get(_TARGET, fleet.name)) != fleet.name:
                message = f"Variant {variant} of endpoint {self._endpoint} not found."
                raise AwsError("ValidationError", message)
            began_at = time.monotonic()
            try:
                answer = invocation.enter_context(fleet.server.invoke(body, headers, limit_s))
                is_error = answer.status >= http.client.BAD_REQUEST
                content = b"" if is_streamed and not is_error else answer.body()
            except (OSError, http.client.HTTPException) as error:
                self._measure(fleet, 500, began_at)
                return self._no_answer(fleet, error)
            if is_streamed and not is_error:
                answer_headers = {
                    "Content-Type": "application/vnd.amazon.eventstream",
                    "X-Amzn-SageMaker-Content-Type": answer.content_type,
                    _VARIANT: fleet.name,
                }
                events = self._events(answer, fleet, began_at)
                # whose `close()` ends the invocation wherever it is
                return 200, answer_headers, ClosingIterator(events, invocation.pop_all().close)
            self._measure(fleet, answer.status, began_at)
        if is_error:
            return self._model_error(fleet, answer.status, content.decode(errors="replace"))
        return 200, {"Content-Type": answer.content_type, _VARIANT: fleet.name}, content

    def _measure(self, fleet: Fleet, status: int, started_at: float) -> None:
        """Publish an answer to InvokeEndpoint."""
        lasted_s = time.monotonic() - started_at
        self._core.context.measure(
            measurements.of_invocation(
                self._endpoint, fleet.config_name, fleet.name, status, lasted_s
            )
        )

    def _no_answer(self, fleet: Fleet, error: Exception) -> Reply:
        reason = f"did not answer: {error or type(error).__name__}"
        end = "ended" if fleet.server.ended() else reason
        return self._model_error(fleet, 0, f"Your model container {end}.")

    def _model_error(self, fleet: Fleet, status: int, text: str) -> Reply:
        """Return a ModelError, HTTP 424 (API_runtime_InvokeEndpoint)."""
        context, group = self._core.context, f"/aws/sagemaker/Endpoints/{self._endpoint}"
        original = status or 500
        side = "server" if original >= 500 else "client"
        error = f'Received {side} error ({original}) from {fleet.name} with message "{text}".'
        where = f"See {group} in account {context.account} for more information."
        document = {
            "Message": f"{error} {where}",
            "OriginalMessage": text,
            "OriginalStatusCode": original,
            "LogStreamArn": f"arn:aws:logs:{context.region}:{context.account}:log-group:{group}",
        }
        headers = {"Content-Type": "application/json", "x-amzn-ErrorType": "ModelError"}
        return 424, headers, json.dumps(document).encode()

    def _events(self, answer: Answer, fleet: Fleet, began_at: float) -> Iterator[bytes]:
        status = 500
        try:
            for part in answer.parts:
                yield event({":event-type": "PayloadPart", ":message-type": "event"}, part)
            status = answer.status
        except TimeoutError:
            yield _failure(
                "ModelStreamError",
                f"Your model {fleet.name} did not complete sending the inference response in the"
                " allotted time.",
                ErrorCode="ModelInvocationTimeExceeded",
            )
        except (OSError, http.client.HTTPException) as error:
            yield _failure(
                "ModelStreamError",
                f"The connection to your model {fleet.name} was reset or closed: {error!r}",
                ErrorCode="StreamBroken",
            )
        except Exception as bug:  # noqa: BLE001 (a client must see the end of its stream)
            _log.exception("a stream failed")
            yield _failure("InternalStreamFailure", repr(bug))
        self._measure(fleet, status, began_at)


def _failure(kind: str, message: str, **members: str) -> bytes:
    headers = {":exception-type": kind, ":message-type": "exception"}
    return event(headers, json.dumps({"Message": message, **members}).encode())


def event(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message of application/vnd.amazon.eventstream."""
    is_event = headers[":message-type"] == "event"
    kind = "application/octet-stream" if is_event else "application/json"
    message = EventStreamEncoder().encode_message({**headers, ":content-type": kind}, payload)
    return bytes(message)
