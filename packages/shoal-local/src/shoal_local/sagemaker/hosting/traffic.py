"""Which instance answers an invocation: the fleet by its share, the variant by its weight."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from shoal_local.errors import AwsError
from shoal_local.sagemaker import measurements
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.fleet import Fleet, Instance, Variant, close
from shoal_local.sagemaker.hosting.server import Answer, ModelServer

Reply = tuple[int, dict[str, str], bytes]
TARGET_VARIANT = "x-amzn-sagemaker-target-variant"
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

    def __init__(self, endpoint: str, drain_s: float) -> None:
        self._endpoint, self._drain_s = endpoint, drain_s
        self._routes: list[tuple[Fleet, float]] = []
        self._changed = threading.Condition()

    def route(self, *routes: tuple[Fleet, float]) -> None:
        """Set the fleets and their shares of the traffic from now on."""
        with self._changed:
            self._routes = [(fleet, share) for fleet, share in routes if share > 0]
            self._changed.notify_all()

    @property
    def is_open(self) -> bool:
        return bool(self._routes)

    def change(self, edit: Callable[[], None]) -> None:
        """Change weights or instances of a fleet while no invocation chooses among them."""
        with self._changed:
            edit()
            self._changed.notify_all()

    @contextmanager
    def acquire(self, target_variant: str | None) -> Iterator[tuple[Fleet, Variant, Instance]]:
        """Yield an instance for one invocation.

        Raise ValidationError if there is no such variant. Raise ThrottlingException if a serverless
        one has its maximum of invocations.
        """
        with self._changed:
            fleet = _choose(self._routes)
            variant = self._variant(fleet, target_variant)
            if variant.max_concurrency is not None and variant.busy >= variant.max_concurrency:
                raise AwsError(
                    "ThrottlingException",
                    f"Rate exceeded: {variant.max_concurrency} concurrent invocations of"
                    f" {variant.name}",
                    429,
                )
            instance = _choose([(each, 1.0) for each in _serving(variant.instances)])
            instance.busy += 1
        try:
            yield fleet, variant, instance
        finally:
            self._release(instance)

    def _release(self, instance: Instance) -> None:
        with self._changed:
            instance.busy -= 1
            self._changed.notify_all()

    def _variant(self, fleet: Fleet, name: str | None) -> Variant:
        if name is None:
            return _choose([(each, each.weight) for each in fleet.variants])
        for variant in fleet.variants:
            if variant.name == name:
                return variant
        raise AwsError("ValidationError", f"Variant {name} of endpoint {self._endpoint} not found.")

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
        with traffic.acquire(self.headers.get(TARGET_VARIANT)) as (fleet, variant, instance):
            started_at = time.monotonic()
            try:
                answer = instance.server.invoke(self.body, self.headers)
            except (OSError, http.client.HTTPException) as error:
                self.measure(fleet, variant, 500, started_at)
                return self._no_answer(variant, instance.server, error)
            self.measure(fleet, variant, answer.status, started_at)
        return self._reply(variant, answer)

    def _reply(self, variant: Variant, answer: Answer) -> Reply:
        if answer.status >= http.client.BAD_REQUEST:
            return self._model_error(
                variant.name, answer.status, answer.body.decode(errors="replace")
            )
        return (
            200,
            {
                "Content-Type": answer.content_type,
                "x-Amzn-Invoked-Production-Variant": variant.name,
            },
            answer.body,
        )

    def measure(self, fleet: Fleet, variant: Variant, status: int, started_at: float) -> None:
        """Publish an answer to InvokeEndpoint."""
        lasted_s = time.monotonic() - started_at
        self.core.measure(
            measurements.of_invocation(
                self.endpoint,
                fleet.config_name,
                variant.name,
                max(1, variant.count),
                status,
                lasted_s,
            )
        )

    def _no_answer(self, variant: Variant, server: ModelServer, error: Exception) -> Reply:
        end = "ended" if server.ended() else f"did not answer: {error or type(error).__name__}"
        return self._model_error(variant.name, 0, f"Your model container {end}.")

    def _model_error(self, variant: str, status: int, text: str) -> Reply:
        """Return a ModelError, HTTP 424 (API_runtime_InvokeEndpoint)."""
        context, group = self.core.context, f"/aws/sagemaker/Endpoints/{self.endpoint}"
        original = status or 500
        side = "server" if original >= 500 else "client"
        where = f"See {group} in account {context.account} for more information."
        message = (
            f'Received {side} error ({original}) from {variant} with message "{text}". {where}'
        )
        stream = f"arn:aws:logs:{context.region}:{context.account}:log-group:{group}"
        document = {
            "Message": message,
            "OriginalMessage": text,
            "OriginalStatusCode": original,
            "LogStreamArn": stream,
        }
        return (
            424,
            {"Content-Type": "application/json", "x-amzn-ErrorType": "ModelError"},
            json.dumps(document).encode(),
        )
