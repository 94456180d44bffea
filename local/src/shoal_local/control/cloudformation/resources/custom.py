"""Custom resources: the template's Lambda function is invoked with Create, Update or Delete, and
its answer, PUT to a URL of the emulator, decides the outcome. A function that fails is reported at
once; AWS would wait for the timeout first.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
)
from shoal_local.control.functions.service import Functions
from shoal_local.control.protocol import Answer, buffer_body
from shoal_local.errors import AwsError

PATH = "/_shoal/cloudformation/"
TIMEOUT_S = 3600
POLL_S = 0.1
LOG_LIMIT_S = 5
CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")


@dataclass
class Waiting:
    """One request to a custom resource's function, until it is answered."""

    done: threading.Event = field(default_factory=threading.Event)
    response: Mapping[str, Any] = field(default_factory=dict)


class CustomResource(ResourceType):
    """All types that templates make up (`Custom::*`); the properties are the function's
    business.
    """

    type_name = "AWS::CloudFormation::CustomResource"
    new_id_means_replaced = True

    def __init__(self, functions: Functions, endpoint_url: Callable[[], str]) -> None:
        self._functions = functions
        self._endpoint_url = endpoint_url
        self._waiting: dict[str, Waiting] = {}

    def check(self, request: Request) -> None:
        if "ServiceToken" not in request.properties:
            raise ResourceError(
                f"Properties validation failed for resource {request.logical_id}: required key"
                " [ServiceToken] not found"
            )
        if ":lambda:" not in str(request["ServiceToken"]):
            raise ResourceError(
                "Shoal's emulator runs custom resources on Lambda only, not"
                f" {request['ServiceToken']}"
            )

    def needs_replacement(self, request: Request) -> bool:
        return False

    def create(self, request: Request) -> Created:
        return self._run(request, {"RequestType": "Create"})

    def update(self, request: Request) -> Created:
        more = {
            "RequestType": "Update",
            "PhysicalResourceId": request.physical_id,
            "OldResourceProperties": as_text(request.old),
        }
        return self._run(request, more)

    def delete(self, request: Request) -> None:
        self._run(request, {"RequestType": "Delete", "PhysicalResourceId": request.physical_id})

    def answer_path(self, environ: dict[str, Any]) -> Answer | None:
        """The response URL: takes what a function PUTs; None when the URL is none of ours."""
        path = environ.get("PATH_INFO", "")
        if not path.startswith(PATH):
            return None
        waiting = self._waiting.get(path.removeprefix(PATH))
        if waiting is None or environ["REQUEST_METHOD"] != "PUT":
            return Answer(
                403, {"Content-Type": "text/plain"}, b"this response URL is not waited for"
            )
        try:
            waiting.response = dict(json.loads(buffer_body(environ)))
        except (ValueError, TypeError, RecursionError) as error:
            waiting.response = {
                "Status": "FAILED",
                "Reason": f"the function's response is not JSON: {error}",
            }
        waiting.done.set()
        return Answer(200, {}, b"")

    def _run(self, request: Request, more: Mapping[str, Any]) -> Created:
        token = secrets.token_urlsafe(24)
        waiting = self._waiting[token] = Waiting()
        event = {
            "ServiceToken": request["ServiceToken"],
            "ResponseURL": f"{self._endpoint_url()}{PATH}{token}",
            "StackId": request.stack_id,
            "RequestId": secrets.token_hex(16),
            "LogicalResourceId": request.logical_id,
            "ResourceType": request.type_name,
            "ResourceProperties": as_text(request.properties),
            **more,
        }
        try:
            response = self._wait(request, event, waiting)
        finally:
            del self._waiting[token]
        return self._outcome(request, response)

    def _wait(
        self, request: Request, event: Mapping[str, Any], waiting: Waiting
    ) -> Mapping[str, Any]:
        try:
            invocation = self._functions.invoke_later(str(request["ServiceToken"]), event)
        except AwsError as error:
            raise ResourceError(
                f"the custom resource's function cannot be invoked: {error.message}"
            ) from error
        timeout_s = float(request.get("ServiceTimeout", TIMEOUT_S))
        deadline = time.monotonic() + timeout_s
        while not waiting.done.wait(POLL_S):
            if invocation.done() and invocation.result():
                return {"Status": "FAILED", "Reason": f"the function failed: {invocation.result()}"}
            if request.closing.is_set():
                raise ResourceError("the emulator is stopping")
            if time.monotonic() > deadline:
                raise ResourceError(
                    "CloudFormation did not receive a response from your Custom Resource within"
                    f" {timeout_s:.0f} seconds (function {request['ServiceToken']}): its log says"
                    " more"
                )
        futures.wait(
            [invocation], LOG_LIMIT_S
        )  # so that its log is written before anything of it is deleted
        return waiting.response

    @staticmethod
    def _outcome(request: Request, response: Mapping[str, Any]) -> Created:
        if response.get("Status") != "SUCCESS":
            reason = (
                response.get("Reason") or f"the response has the Status {response.get('Status')}"
            )
            raise ResourceError(
                "Received response status [FAILED] from custom resource. Message returned:"
                f" {reason}"
            )
        physical_id = response.get("PhysicalResourceId") or request.physical_id
        if not physical_id:
            raise ResourceError(
                "Invalid PhysicalResourceId: the custom resource's response has none"
            )
        return Created(str(physical_id), dict(response.get("Data") or {}))


def as_text(value: Any) -> Any:
    """Properties as CloudFormation hands them to functions: numbers and booleans are text."""
    if isinstance(value, Mapping):
        return {key: as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_text(inner) for inner in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None or isinstance(value, str) else str(value)


def is_custom(type_name: str) -> bool:
    return type_name.startswith(CUSTOM)
