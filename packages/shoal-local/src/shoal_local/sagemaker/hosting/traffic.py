"""Which fleet answers an invocation: it is chosen by its share of the traffic."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from shoal_local.errors import AwsError
from shoal_local.sagemaker import measurements
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.fleet import Fleet

Reply = tuple[int, dict[str, str], bytes]
_VARIANT = "x-Amzn-Invoked-Production-Variant"
_random = random.SystemRandom()


class Traffic:
    """The routes of one endpoint."""

    def __init__(self, drain_s: float) -> None:
        self._drain_s = drain_s
        self._routes: list[tuple[Fleet, float]] = []
        self._changed = threading.Condition()

    def route(self, *routes: tuple[Fleet, float]) -> None:
        """Set the fleets and their shares of the traffic from now on."""
        with self._changed:
            self._routes = [(fleet, share) for fleet, share in routes if share > 0]

    @property
    def is_open(self) -> bool:
        return bool(self._routes)

    @contextmanager
    def acquire(self) -> Iterator[Fleet]:
        """Yield a fleet for one invocation.

        Raise ThrottlingException if a serverless fleet has its maximum of invocations.
        """
        with self._changed:
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

    def retire(self, fleet: Fleet) -> None:
        """End a fleet that has no route any more, after it has answered what it was sent."""
        with self._changed:
            self._changed.wait_for(lambda: not fleet.busy, self._drain_s)
        fleet.server.close()


@dataclass(frozen=True)
class Invocation:
    """One call of InvokeEndpoint."""

    core: Core
    endpoint: str
    body: bytes
    headers: Mapping[str, str]

    def send(self, traffic: Traffic) -> Reply:
        """Return status, headers and body of the answer. Raises what `Traffic.acquire` raises."""
        with traffic.acquire() as fleet:
            started_at = time.monotonic()
            try:
                answer = fleet.server.invoke(self.body, self.headers)
            except (OSError, http.client.HTTPException) as error:
                self.measure(fleet, 500, started_at)
                return self._no_answer(fleet, error)
            self.measure(fleet, answer.status, started_at)
        if answer.status >= http.client.BAD_REQUEST:
            return self._model_error(fleet, answer.status, answer.body.decode(errors="replace"))
        return 200, {"Content-Type": answer.content_type, _VARIANT: fleet.name}, answer.body

    def measure(self, fleet: Fleet, status: int, started_at: float) -> None:
        """Publish an answer to InvokeEndpoint."""
        lasted_s = time.monotonic() - started_at
        self.core.context.measure(
            measurements.of_invocation(
                self.endpoint, fleet.config_name, fleet.name, status, lasted_s
            )
        )

    def _no_answer(self, fleet: Fleet, error: Exception) -> Reply:
        reason = f"did not answer: {error or type(error).__name__}"
        end = "ended" if fleet.server.ended() else reason
        return self._model_error(fleet, 0, f"Your model container {end}.")

    def _model_error(self, fleet: Fleet, status: int, text: str) -> Reply:
        """Return a ModelError, HTTP 424 (API_runtime_InvokeEndpoint)."""
        context, group = self.core.context, f"/aws/sagemaker/Endpoints/{self.endpoint}"
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
