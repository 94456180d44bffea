"""InvokeEndpointWithResponseStream: the container's answer as events, as it arrives.

An answer above 399 is a ModelError, as for InvokeEndpoint. What goes wrong later is the last event:
ModelStreamError, or InternalStreamFailure for a failure here. Sources: API reference,
InvokeEndpointWithResponseStream; AWS's wording of a timeout: repost.aws, "invoke streaming timeout
error". The format is that of botocore/eventstream.py.
"""

from __future__ import annotations

import http.client
import json
import logging
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from shoal_local.sagemaker.hosting.fleet import Fleet
from shoal_local.sagemaker.hosting.server import StreamedAnswer
from shoal_local.sagemaker.hosting.traffic import Invocation, Traffic

_ACCEPT = "x-amzn-sagemaker-accept"
_TEXT = 7
"""The type of a header whose value is a text."""

_log = logging.getLogger(__name__)


class EventStream(Iterator[bytes]):
    """The events of an answer. `close()` ends the invocation wherever it is."""

    def __init__(self, events: Iterator[bytes], invocation: ExitStack) -> None:
        self._events, self._invocation = events, invocation

    def __next__(self) -> bytes:
        return next(self._events)

    def close(self) -> None:
        self._invocation.close()


@dataclass(frozen=True)
class StreamedInvocation(Invocation):
    """One call of InvokeEndpointWithResponseStream."""

    def stream(self, traffic: Traffic) -> tuple[int, dict[str, str], bytes | EventStream]:
        """Return status, headers and events of the answer. Raises what `Traffic.acquire` raises."""
        with ExitStack() as invocation:
            return self._begin(traffic, invocation)

    def _begin(
        self, traffic: Traffic, invocation: ExitStack
    ) -> tuple[int, dict[str, str], bytes | EventStream]:
        fleet = invocation.enter_context(traffic.acquire())
        began_at = time.monotonic()
        headers = {**self.headers, "accept": self.headers.get(_ACCEPT, "*/*")}
        try:
            answer = invocation.enter_context(fleet.server.stream(self.body, headers))
            if answer.status >= http.client.BAD_REQUEST:
                text = b"".join(answer.parts).decode(errors="replace")
                self.measure(fleet, answer.status, began_at)
                return self._model_error(fleet, answer.status, text)
        except (OSError, http.client.HTTPException) as error:
            self.measure(fleet, 500, began_at)
            return self._no_answer(fleet, error)
        answer_headers = {
            "Content-Type": "application/vnd.amazon.eventstream",
            "X-Amzn-SageMaker-Content-Type": answer.content_type,
            "x-Amzn-Invoked-Production-Variant": fleet.name,
        }
        events = self._events(answer, fleet, began_at)
        return 200, answer_headers, EventStream(events, invocation.pop_all())

    def _events(self, answer: StreamedAnswer, fleet: Fleet, began_at: float) -> Iterator[bytes]:
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
        self.measure(fleet, status, began_at)


def _failure(kind: str, message: str, **members: str) -> bytes:
    headers = {":exception-type": kind, ":message-type": "exception"}
    return event(headers, json.dumps({"Message": message, **members}).encode())


def event(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message of application/vnd.amazon.eventstream."""
    is_event = headers[":message-type"] == "event"
    kind = "application/octet-stream" if is_event else "application/json"
    encoded = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", _TEXT, len(value)) + value
        for name, text in {**headers, ":content-type": kind}.items()
        for value in (text.encode(),)
    )
    total = 16 + len(encoded) + len(payload)
    prelude = struct.pack("!II", total, len(encoded))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + encoded + payload
    return message + struct.pack("!I", zlib.crc32(message))
