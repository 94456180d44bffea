"""InvokeEndpoint: a request's body and headers in; what an instance's container answered, measured,
out.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from shoal_local.sagemaker import measurements
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting.fleet import Fleet, Variant
from shoal_local.sagemaker.hosting.server import Answer, ModelServer
from shoal_local.sagemaker.hosting.traffic import Traffic

Reply = tuple[int, dict[str, str], bytes]
_TARGET_VARIANT = "x-amzn-sagemaker-target-variant"


@dataclass(frozen=True)
class Invocation:
    """One call of an endpoint."""

    core: Core
    endpoint: str
    body: bytes
    headers: Mapping[str, str]

    def of(self, traffic: Traffic) -> Reply:
        """Status, headers and body of the answer; AwsError as Traffic.taken."""
        with traffic.taken(self.headers.get(_TARGET_VARIANT)) as (fleet, variant, instance):
            begun = time.monotonic()
            try:
                answer = instance.server.invoke(self.body, self.headers)
            except (OSError, http.client.HTTPException) as silent:
                self._measure(fleet, variant, 500, begun)
                return self._silence(variant, instance.server, silent)
            self._measure(fleet, variant, answer.status, begun)
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

    def _measure(self, fleet: Fleet, variant: Variant, status: int, begun: float) -> None:
        lasted_s = time.monotonic() - begun
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

    def _silence(self, variant: Variant, server: ModelServer, silent: Exception) -> Reply:
        why = "ended" if server.ended() else f"did not answer: {silent or type(silent).__name__}"
        return self._model_error(variant.name, 0, f"Your model container {why}.")

    def _model_error(self, variant: str, status: int, said: str) -> Reply:
        """ModelError, HTTP 424 (API_runtime_InvokeEndpoint)."""
        context, group = self.core.context, f"/aws/sagemaker/Endpoints/{self.endpoint}"
        original = status or 500
        side = "server" if original >= 500 else "client"
        where = f"See {group} in account {context.account} for more information."
        message = (
            f'Received {side} error ({original}) from {variant} with message "{said}". {where}'
        )
        stream = f"arn:aws:logs:{context.region}:{context.account}:log-group:{group}"
        document = {
            "Message": message,
            "OriginalMessage": said,
            "OriginalStatusCode": original,
            "LogStreamArn": stream,
        }
        return (
            424,
            {"Content-Type": "application/json", "x-amzn-ErrorType": "ModelError"},
            json.dumps(document).encode(),
        )
