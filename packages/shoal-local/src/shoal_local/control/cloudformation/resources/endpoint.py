"""AWS::SageMaker::Endpoint.

The published schema says which changes need a new resource (createOnlyProperties) and that `Ref`
returns an ARN (primaryIdentifier).

An endpoint is complete when it is InService with the configuration in the template. If SageMaker
rolls an update back, the endpoint is InService with its old configuration: the resource then fails
with the endpoint's FailureReason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    names,
    undo_on_failure,
)

POLL_S = 0.2
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
        while not request.closing.wait(POLL_S):
            client.describe_endpoint(EndpointName=name)  # until it is missing


def _settled(request: Request, name: str) -> Mapping[str, Any]:
    """Wait until SageMaker has finished with the endpoint, and return it."""
    client = request.client("sagemaker")
    while (endpoint := client.describe_endpoint(EndpointName=name))[
        "EndpointStatus"
    ] not in SETTLED:
        if request.closing.wait(POLL_S):
            raise ResourceError("the emulator is stopping")
    return cast(Mapping[str, Any], endpoint)
