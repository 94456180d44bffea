"""Which instance answers an invocation: the fleet is chosen by its share of the traffic."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from shoal_local.errors import AwsError
from shoal_local.sagemaker import measurements
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.fleet import Fleet, Instance, close
from shoal_local.sagemaker.hosting.server import ModelServer

Reply = tuple[int, dict[str, str], bytes]
_VARIANT = "x-Amzn-Invoked-Production-Variant"
_random = random.SystemRandom()
T = TypeVar("T")


def _choose(weighted: Sequence[tuple[T, float]]) -> T:
    """Return one of some things with their weights; the kernel is asked for chance if there are
    several.
    """
    if len(weighted) == 1:
        return weighted[0][0]
    return _random.choices([each for each, _ in weighted], [weight for _, weight in weighted])[0]


def _serving(instances: Sequence[Instance]) -> Sequence[Instance]:
    """Return the instances whose container has not ended; all of them if each has."""
    if len(instances) == 1:  # nothing to choose from: nobody asks the system about a process
        return instances
    return [each for each in instances if not each.server.ended()] or instances


class Traffic:
    """The routes of one endpoint.

    An instance that is retired ends after it has answered what it was sent.
    """

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
    def acquire(self) -> Iterator[tuple[Fleet, Instance]]:
        """Yield an instance for one invocation.

        Raise ThrottlingException if a serverless fleet has its maximum of invocations.
        """
        with self._changed:
            fleet = _choose(self._routes)
            busy = sum(each.busy for each in fleet.instances)
            if fleet.max_concurrency is not None and busy >= fleet.max_concurrency:
                message = f"{fleet.max_concurrency} concurrent invocations of {fleet.name}"
                raise AwsError("ThrottlingException", f"Rate exceeded: {message}", 429)
            instance = _choose([(each, 1.0) for each in _serving(fleet.instances)])
            instance.busy += 1
        try:
            yield fleet, instance
        finally:
            with self._changed:
                instance.busy -= 1
                self._changed.notify_all()

    def retire(self, instances: Sequence[Instance]) -> None:
        """End instances that have no route any more, after they have answered what they were
        sent.
        """
        with self._changed:
            self._changed.wait_for(lambda: not any(each.busy for each in instances), self._drain_s)
        close(each.server for each in instances)


@dataclass(frozen=True)
class Invocation:
    """One call of InvokeEndpoint."""

    core: Core
    endpoint: str
    body: bytes
    headers: Mapping[str, str]

    def send(self, traffic: Traffic) -> Reply:
        """Return status, headers and body of the answer. Raises what `Traffic.acquire` raises."""
        with traffic.acquire() as (fleet, instance):
            started_at = time.monotonic()
            try:
                answer = instance.server.invoke(self.body, self.headers)
            except (OSError, http.client.HTTPException) as error:
                self.measure(fleet, 500, started_at)
                return self._no_answer(fleet, instance.server, error)
            self.measure(fleet, answer.status, started_at)
        if answer.status >= http.client.BAD_REQUEST:
            return self._model_error(fleet, answer.status, answer.body.decode(errors="replace"))
        return 200, {"Content-Type": answer.content_type, _VARIANT: fleet.name}, answer.body

    def measure(self, fleet: Fleet, status: int, started_at: float) -> None:
        """Publish an answer to InvokeEndpoint."""
        lasted_s, instances = time.monotonic() - started_at, max(1, fleet.count)
        self.core.measure(
            measurements.of_invocation(
                self.endpoint, fleet.config_name, fleet.name, instances, status, lasted_s
            )
        )

    def _no_answer(self, fleet: Fleet, server: ModelServer, error: Exception) -> Reply:
        end = "ended" if server.ended() else f"did not answer: {error or type(error).__name__}"
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
