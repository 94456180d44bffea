"""Resources that CloudFormation waits for: custom resources, and AWS::SageMaker::Endpoint.

The Lambda function of a custom resource is invoked with Create, Update or Delete. Its answer, PUT
to a URL of the emulator, decides the outcome. A function that fails is reported at once; AWS would
wait for the timeout.

An endpoint is complete when it is InService with the configuration in the template. If SageMaker
rolls an update back, the endpoint is InService with its old configuration: the resource then fails
with the endpoint's FailureReason. The published schema says which changes need a new resource
(createOnlyProperties) and that `Ref` returns an ARN (primaryIdentifier).
"""

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from concurrent.futures import Future, InvalidStateError
from typing import Any, cast

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    names,
    undo_on_failure,
)
from shoal_local.control.functions.service import Functions
from shoal_local.control.http.protocol import Answer, buffer_body
from shoal_local.errors import AwsError

PATH = "/_shoal/cloudformation/"
TIMEOUT_S = 3600
POLL_S = 0.1
LOG_LIMIT_S = 5
# The CDK's function would ask the provider itself for a thumbprint. Here no provider's token is
# accepted.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "Custom::AWSCDKOpenIdConnectProvider": {"ThumbprintList": ["0" * 40]}
}
CUSTOM_PREFIXES = ("Custom::", "AWS::CloudFormation::CustomResource")


class CustomResource(ResourceType):
    """All types that templates define (`Custom::*`); their functions check the properties."""

    type_name = "AWS::CloudFormation::CustomResource"
    properties = frozenset()  # of those that the stack itself would set, such as Tags
    new_id_means_replaced = True

    def __init__(self, functions: Functions, endpoint_url: Callable[[], str]) -> None:
        self._functions = functions
        self._endpoint_url = endpoint_url
        self._pending: dict[str, Future[Mapping[str, Any]]] = {}
        """What functions have not answered yet, by the end of the response URL."""

    def check(self, request: Request) -> None:
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
        details = {
            "RequestType": "Update",
            "PhysicalResourceId": request.physical_id,
            "OldResourceProperties": to_text(request.old),
        }
        return self._run(request, details)

    def delete(self, request: Request) -> None:
        self._run(request, {"RequestType": "Delete", "PhysicalResourceId": request.physical_id})

    def answer_path(self, environ: dict[str, Any]) -> Answer | None:
        """Answer a PUT to a response URL, None for any other path."""
        path = environ.get("PATH_INFO", "")
        if not path.startswith(PATH):
            return None
        pending = self._pending.get(path.removeprefix(PATH))
        if pending is None or environ["REQUEST_METHOD"] != "PUT":
            plain = {"Content-Type": "text/plain"}
            return Answer(403, plain, b"this response URL is not waited for")
        try:
            response = dict(json.loads(buffer_body(environ)))
        except (ValueError, TypeError, RecursionError) as error:
            reason = f"the function's response is not JSON: {error}"
            response = {"Status": "FAILED", "Reason": reason}
        with contextlib.suppress(InvalidStateError):  # the first answer counts
            pending.set_result(response)
        return Answer(200, {}, b"")

    def _run(self, request: Request, details: Mapping[str, Any]) -> Created:
        token = secrets.token_urlsafe(24)
        pending = self._pending[token] = Future[Mapping[str, Any]]()
        event = {
            "ServiceToken": request["ServiceToken"],
            "ResponseURL": f"{self._endpoint_url()}{PATH}{token}",
            "StackId": request.stack_id,
            "RequestId": secrets.token_hex(16),
            "LogicalResourceId": request.logical_id,
            "ResourceType": request.type_name,
            "ResourceProperties": {
                **DEFAULTS.get(request.type_name, {}),
                **to_text(request.properties),
            },
            **details,
        }
        try:
            response = self._wait(request, event, pending)
        finally:
            del self._pending[token]
        return self._outcome(request, response)

    def _wait(
        self, request: Request, event: Mapping[str, Any], pending: Future[Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        try:
            invocation = self._functions.invoke_later(str(request["ServiceToken"]), event)
        except AwsError as error:
            raise ResourceError(
                f"the custom resource's function cannot be invoked: {error.message}"
            ) from error
        timeout_s = float(request.get("ServiceTimeout", TIMEOUT_S))
        deadline = time.monotonic() + timeout_s
        while not futures.wait([pending], POLL_S).done:
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
        # The log must be written before the function is deleted.
        futures.wait([invocation], LOG_LIMIT_S)
        return pending.result()

    @staticmethod
    def _outcome(request: Request, response: Mapping[str, Any]) -> Created:
        if response.get("Status") != "SUCCESS":
            status = f"the response has the Status {response.get('Status')}"
            reason = response.get("Reason") or status
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


def to_text(value: Any) -> Any:
    """Return properties as CloudFormation passes them to functions: all scalars are text."""
    if isinstance(value, Mapping):
        return {key: to_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [to_text(inner) for inner in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None or isinstance(value, str) else str(value)


def is_custom(type_name: str) -> bool:
    return type_name.startswith(CUSTOM_PREFIXES)


ENDPOINT_POLL_S = 0.2
SETTLED = frozenset({"InService", "Failed", "OutOfService", "UpdateRollbackFailed"})
MAX_NAME_LENGTH = 63
UPDATED = (
    "EndpointConfigName",
    "DeploymentConfig",
    "RetainAllVariantProperties",
    "ExcludeRetainedVariantProperties",
    "RetainDeploymentConfig",
)


class Endpoint(ResourceType):
    type_name = "AWS::SageMaker::Endpoint"
    replaced_by = names("EndpointName")
    properties = frozenset({"EndpointName", "Tags", *UPDATED})

    def create(self, request: Request) -> Created:
        """Create the endpoint and wait for it.

        The Retain properties are for updates only (CloudFormation reference: "use only when
        updating").
        """
        name, client = request.name("EndpointName", MAX_NAME_LENGTH), request.client("sagemaker")
        arn = request.call(
            "sagemaker",
            "CreateEndpoint",
            EndpointName=name,
            Tags=request.tags(),
            **request.only("EndpointConfigName", "DeploymentConfig"),
        )["EndpointArn"]
        with undo_on_failure(lambda: client.delete_endpoint(EndpointName=name)):
            self._require_in_service(request, name, str(request["EndpointConfigName"]))
        return Created(arn, {"EndpointName": name, "EndpointArn": arn})

    def update(self, request: Request) -> Created:
        """Deploy the configuration, unless the endpoint has it.

        It has it if SageMaker rolled the update back that this stack now rolls back.
        """
        name, config = request.attributes["EndpointName"], str(request["EndpointConfigName"])
        if _settled(request, name)["EndpointConfigName"] != config:
            changes = request.only(*UPDATED)
            request.call("sagemaker", "UpdateEndpoint", EndpointName=name, **changes)
            self._require_in_service(request, name, config)
        request.retag("sagemaker", request.physical_id)
        return Created(request.physical_id, request.attributes)

    def _require_in_service(self, request: Request, name: str, config: str) -> None:
        """Raise ResourceError, with FailureReason, if the endpoint does not serve `config`."""
        endpoint = _settled(request, name)
        if endpoint["EndpointStatus"] != "InService" or endpoint["EndpointConfigName"] != config:
            is_now = (
                f"the endpoint is {endpoint['EndpointStatus']} with the configuration"
                f" {endpoint['EndpointConfigName']}"
            )
            raise ResourceError(endpoint.get("FailureReason") or is_now)

    def delete(self, request: Request) -> None:
        name, client = request.attributes["EndpointName"], request.client("sagemaker")
        client.delete_endpoint(EndpointName=name)
        while not request.closing.wait(ENDPOINT_POLL_S):
            client.describe_endpoint(EndpointName=name)  # until it is missing


def _settled(request: Request, name: str) -> Mapping[str, Any]:
    """Wait until SageMaker has finished with the endpoint, and return it."""
    client = request.client("sagemaker")
    while (endpoint := client.describe_endpoint(EndpointName=name))[
        "EndpointStatus"
    ] not in SETTLED:
        if request.closing.wait(ENDPOINT_POLL_S):
            raise ResourceError("the emulator is stopping")
    return cast(Mapping[str, Any], endpoint)
