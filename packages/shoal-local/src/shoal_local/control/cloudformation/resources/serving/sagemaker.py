"""AWS::SageMaker: models, endpoints, pipelines and model package groups.

The published schemas of models and endpoints say which changes need a new resource
(createOnlyProperties) and that `Ref` returns an ARN (primaryIdentifier).

An endpoint is complete when it is InService with the configuration in the template. If SageMaker
rolls an update back, the endpoint is InService with its old configuration: the resource then fails
with the endpoint's FailureReason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, cast

import botocore.session
from botocore.model import ListShape, MapShape, Shape, StructureShape

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    names,
    undo_on_failure,
)
from shoal_local.control.cloudformation.resources.network.ec2 import as_bool

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


@cache
def input_shape(service: str, operation: str) -> StructureShape:
    """Return the shape of an operation's parameters."""
    model = botocore.session.Session().get_service_model(service)
    return cast(StructureShape, model.operation_model(operation).input_shape)


def typed(shape: Shape, value: Any) -> Any:
    """Return `value` with the types of `shape`.

    Templates may write numbers and booleans as text, which the API refuses.
    """
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        return {
            key: typed(shape.members[key], each) if key in shape.members else each
            for key, each in value.items()
        }
    if isinstance(shape, MapShape) and isinstance(value, Mapping):
        return {key: typed(shape.value, each) for key, each in value.items()}
    if isinstance(shape, ListShape) and isinstance(value, list):
        return [typed(shape.member, each) for each in value]
    return _scalar(shape.type_name, value)


def _scalar(type_name: str, value: Any) -> Any:
    if type_name == "boolean":
        return as_bool(value)
    if type_name in {"integer", "long"}:
        return int(value)
    if type_name in {"float", "double"}:
        return float(value)
    return str(value) if type_name == "string" and isinstance(value, int | float) else value


def typed_for(service: str, operation: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties as an operation takes them."""
    return cast(dict[str, Any], typed(input_shape(service, operation), properties))


def arguments_for(operation: str, request: Request, *names_: str) -> dict[str, Any]:
    """Return those of the properties that are set, as SageMaker's `operation` takes them."""
    return typed_for("sagemaker", operation, request.only(*names_))


def retag_sagemaker(request: Request, arn: str) -> None:
    client = request.client("sagemaker")
    request.retag(
        lambda: client.add_tags(ResourceArn=arn, Tags=request.tags()),
        lambda keys: client.delete_tags(ResourceArn=arn, TagKeys=keys),
    )


class _Immutable(ResourceType):
    """A type with nothing but tags that can be changed."""

    noun: ClassVar[str]

    def create(self, request: Request) -> Created:
        name, client = (
            request.name(f"{self.noun}Name", MAX_NAME_LENGTH),
            request.client("sagemaker"),
        )
        make = getattr(client, f"create_{self._words()}")
        arguments = arguments_for(
            f"Create{self.noun}", request, *(self.properties - {f"{self.noun}Name", "Tags"})
        )
        arn = make(**{f"{self.noun}Name": name}, **arguments, Tags=request.tags())[
            f"{self.noun}Arn"
        ]
        return Created(arn, {f"{self.noun}Name": name, f"{self.noun}Arn": arn})

    def update(self, request: Request) -> Created:
        retag_sagemaker(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        delete = getattr(request.client("sagemaker"), f"delete_{self._words()}")
        delete(**{f"{self.noun}Name": request.attributes[f"{self.noun}Name"]})

    def _words(self) -> str:
        return {"Model": "model", "EndpointConfig": "endpoint_config"}[self.noun]


class Model(_Immutable):
    type_name = "AWS::SageMaker::Model"
    noun = "Model"
    replaced_by = names(
        "ModelName Containers EnableNetworkIsolation ExecutionRoleArn InferenceExecutionConfig"
        " PrimaryContainer VpcConfig"
    )
    properties = replaced_by | {"Tags"}


class EndpointConfig(_Immutable):
    type_name = "AWS::SageMaker::EndpointConfig"
    noun = "EndpointConfig"
    replaced_by = names(
        "EndpointConfigName AsyncInferenceConfig DataCaptureConfig EnableNetworkIsolation"
        " ExecutionRoleArn ExplainerConfig KmsKeyId MetricsConfig ProductionVariants"
        " ShadowProductionVariants VpcConfig"
    )
    properties = replaced_by | {"Tags"}


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
        arguments = arguments_for(
            "CreateEndpoint", request, "EndpointConfigName", "DeploymentConfig"
        )
        arn = client.create_endpoint(EndpointName=name, **arguments, Tags=request.tags())[
            "EndpointArn"
        ]
        with undo_on_failure(lambda: client.delete_endpoint(EndpointName=name)):
            self._require_in_service(request, name, str(request["EndpointConfigName"]))
        return Created(arn, {"EndpointName": name, "EndpointArn": arn})

    def update(self, request: Request) -> Created:
        """Deploy the configuration, unless the endpoint has it.

        It has it if SageMaker rolled the update back that this stack now rolls back.
        """
        name, client = request.attributes["EndpointName"], request.client("sagemaker")
        config = str(request["EndpointConfigName"])
        if _settled(request, name)["EndpointConfigName"] != config:
            client.update_endpoint(
                EndpointName=name, **arguments_for("UpdateEndpoint", request, *UPDATED)
            )
            self._require_in_service(request, name, config)
        retag_sagemaker(request, request.physical_id)
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


class Pipeline(ResourceType):
    type_name = "AWS::SageMaker::Pipeline"
    properties = names(
        "PipelineName PipelineDefinition RoleArn PipelineDisplayName PipelineDescription"
        " ParallelismConfiguration Tags"
    )
    replaced_by = names("PipelineName")

    def create(self, request: Request) -> Created:
        name = request["PipelineName"]
        token = request.generated_name(64)
        request.client("sagemaker").create_pipeline(
            PipelineName=name,
            ClientRequestToken=token,
            RoleArn=request["RoleArn"],
            Tags=request.tags(),
            **self._arguments(request),
        )
        return Created(name, {"PipelineName": name})

    def update(self, request: Request) -> Created:
        client = request.client("sagemaker")
        updated = client.update_pipeline(
            PipelineName=request.physical_id, RoleArn=request["RoleArn"], **self._arguments(request)
        )
        retag_sagemaker(request, updated["PipelineArn"])
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        token = request.generated_name(64)
        client = request.client("sagemaker")
        client.delete_pipeline(PipelineName=request.physical_id, ClientRequestToken=token)

    def _arguments(self, request: Request) -> dict[str, Any]:
        definition = request["PipelineDefinition"]
        body = definition.get("PipelineDefinitionBody")
        location = definition.get("PipelineDefinitionS3Location")
        definition_arguments: dict[str, Any] = (
            {"PipelineDefinitionS3Location": lowered_location(location)} if location else {}
        )
        if body is not None:
            definition_arguments["PipelineDefinition"] = (
                body if isinstance(body, str) else json.dumps(body)
            )
        return {
            **definition_arguments,
            **request.only(
                "PipelineDisplayName", "PipelineDescription", "ParallelismConfiguration"
            ),
        }


def lowered_location(location: Mapping[str, Any]) -> dict[str, str]:
    """Return a location in S3 as the API spells it.

    CloudFormation has Key and Version for ObjectKey and VersionId.
    """
    renamed = {"Key": "ObjectKey", "Version": "VersionId"}
    return {renamed.get(key, key): str(value) for key, value in location.items() if key != "ETag"}


class ModelPackageGroup(ResourceType):
    type_name = "AWS::SageMaker::ModelPackageGroup"
    properties = names(
        "ModelPackageGroupName ModelPackageGroupDescription ModelPackageGroupPolicy Tags"
    )
    replaced_by = names("ModelPackageGroupName ModelPackageGroupDescription")

    def create(self, request: Request) -> Created:
        client = request.client("sagemaker")
        arguments = request.only("ModelPackageGroupName", "ModelPackageGroupDescription")
        arn = client.create_model_package_group(**arguments, Tags=request.tags())[
            "ModelPackageGroupArn"
        ]
        self._put_policy(request)
        return Created(arn, {"ModelPackageGroupArn": arn, "ModelPackageGroupStatus": "Completed"})

    def update(self, request: Request) -> Created:
        retag_sagemaker(request, request.physical_id)
        self._put_policy(request)
        return Created(request.physical_id, request.attributes)

    @staticmethod
    def _put_policy(request: Request) -> None:
        """Put the policy of the group, or delete it if the template has none."""
        client, name = request.client("sagemaker"), request["ModelPackageGroupName"]
        policy, old_policy = (
            request.get("ModelPackageGroupPolicy"),
            (request.old or {}).get("ModelPackageGroupPolicy"),
        )
        if policy:
            text = policy if isinstance(policy, str) else json.dumps(policy)
            client.put_model_package_group_policy(ModelPackageGroupName=name, ResourcePolicy=text)
        elif old_policy:
            client.delete_model_package_group_policy(ModelPackageGroupName=name)

    def delete(self, request: Request) -> None:
        name = request["ModelPackageGroupName"]
        client = request.client("sagemaker")
        client.delete_model_package_group(ModelPackageGroupName=name)


TYPES: tuple[ResourceType, ...] = (
    Model(),
    EndpointConfig(),
    Endpoint(),
    Pipeline(),
    ModelPackageGroup(),
)
