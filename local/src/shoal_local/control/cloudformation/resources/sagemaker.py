"""AWS::SageMaker::Model, EndpointConfig and Endpoint: properties in, requests of the SageMaker API
out.

What a change replaces is what the types' published schemas say (createOnlyProperties); `Ref` gives
an ARN, as their primaryIdentifier. An endpoint is done when it is InService with the configuration
that the template names. Where an update is rolled back, the endpoint is InService too, with its old
configuration: the resource then fails with the endpoint's FailureReason.
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
    gone_is_fine,
    names,
    undone_on_failure,
)
from shoal_local.control.cloudformation.resources.ec2 import truth

POLL_S = 0.2
SETTLED = frozenset({"InService", "Failed", "OutOfService", "UpdateRollbackFailed"})
LONGEST_NAME = 63
UPDATED = (
    "EndpointConfigName",
    "DeploymentConfig",
    "RetainAllVariantProperties",
    "ExcludeRetainedVariantProperties",
    "RetainDeploymentConfig",
)


@cache
def input_shape(service: str, operation: str) -> StructureShape:
    """What the API takes."""
    model = botocore.session.Session().get_service_model(service)
    return cast(StructureShape, model.operation_model(operation).input_shape)


def typed(shape: Shape, value: Any) -> Any:
    """`value` with the types of `shape`: templates may write numbers and booleans as text, the API
    takes them as such.
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
        return truth(value)
    if type_name in {"integer", "long"}:
        return int(value)
    if type_name in {"float", "double"}:
        return float(value)
    return str(value) if type_name == "string" and isinstance(value, int | float) else value


def typed_for(service: str, operation: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties as an operation takes them."""
    given: dict[str, Any] = typed(input_shape(service, operation), properties)
    return given


def wanted(operation: str, request: Request, *names_: str) -> dict[str, Any]:
    """The given properties that are set, as SageMaker's `operation` takes them."""
    return typed_for("sagemaker", operation, request.only(*names_))


def retag_sagemaker(request: Request, arn: str) -> None:
    client = request.client("sagemaker")
    request.retag(
        lambda: client.add_tags(ResourceArn=arn, Tags=request.tags()),
        lambda keys: client.delete_tags(ResourceArn=arn, TagKeys=keys),
    )


class _Immutable(ResourceType):
    """Made and deleted by its name; only its tags can be changed."""

    noun: ClassVar[str]

    def create(self, request: Request) -> Created:
        name, client = request.name(f"{self.noun}Name", LONGEST_NAME), request.client("sagemaker")
        make = getattr(client, f"create_{self._words()}")
        arguments = wanted(
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
        gone_is_fine(lambda: delete(**{f"{self.noun}Name": request.attributes[f"{self.noun}Name"]}))

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
        """The Retain properties are of updates (CloudFormation reference: "use only when
        updating").
        """
        name, client = request.name("EndpointName", LONGEST_NAME), request.client("sagemaker")
        arguments = wanted("CreateEndpoint", request, "EndpointConfigName", "DeploymentConfig")
        arn = client.create_endpoint(EndpointName=name, **arguments, Tags=request.tags())[
            "EndpointArn"
        ]
        with undone_on_failure(lambda: client.delete_endpoint(EndpointName=name)):
            self._settle(request, name, str(request["EndpointConfigName"]))
        return Created(arn, {"EndpointName": name, "EndpointArn": arn})

    def update(self, request: Request) -> Created:
        """Nothing is deployed where the endpoint has the configuration already: a stack that takes
        back an update that SageMaker rolled back finds it so.
        """
        name, client = request.attributes["EndpointName"], request.client("sagemaker")
        config = str(request["EndpointConfigName"])
        if _settled(request, name)["EndpointConfigName"] != config:
            client.update_endpoint(EndpointName=name, **wanted("UpdateEndpoint", request, *UPDATED))
            self._settle(request, name, config)
        retag_sagemaker(request, request.physical_id)
        return Created(request.physical_id, request.attributes)

    def _settle(self, request: Request, name: str, config: str) -> None:
        """ResourceError with the FailureReason of an endpoint that is not InService with
        `config`.
        """
        found = _settled(request, name)
        if found["EndpointStatus"] != "InService" or found["EndpointConfigName"] != config:
            is_now = (
                f"the endpoint is {found['EndpointStatus']} with the configuration"
                f" {found['EndpointConfigName']}"
            )
            raise ResourceError(found.get("FailureReason") or is_now)

    def delete(self, request: Request) -> None:
        name, client = request.attributes["EndpointName"], request.client("sagemaker")

        def remove() -> None:
            client.delete_endpoint(EndpointName=name)
            while not request.closing.wait(POLL_S):
                client.describe_endpoint(EndpointName=name)

        gone_is_fine(remove)


def _settled(request: Request, name: str) -> Mapping[str, Any]:
    """The endpoint once nothing is being done to it."""
    client = request.client("sagemaker")
    while (found := client.describe_endpoint(EndpointName=name))["EndpointStatus"] not in SETTLED:
        if request.closing.wait(POLL_S):
            raise ResourceError("the emulator is stopping")
    return cast(Mapping[str, Any], found)


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
            **self._wanted(request),
        )
        return Created(name, {"PipelineName": name})

    def update(self, request: Request) -> Created:
        client = request.client("sagemaker")
        updated = client.update_pipeline(
            PipelineName=request.physical_id, RoleArn=request["RoleArn"], **self._wanted(request)
        )
        retag_sagemaker(request, updated["PipelineArn"])
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        token = request.generated_name(64)
        client = request.client("sagemaker")
        gone_is_fine(
            lambda: client.delete_pipeline(
                PipelineName=request.physical_id, ClientRequestToken=token
            )
        )

    def _wanted(self, request: Request) -> dict[str, Any]:
        definition = request["PipelineDefinition"]
        body = definition.get("PipelineDefinitionBody")
        location = definition.get("PipelineDefinitionS3Location")
        where: dict[str, Any] = (
            {"PipelineDefinitionS3Location": lowered_location(location)} if location else {}
        )
        if body is not None:
            where["PipelineDefinition"] = body if isinstance(body, str) else json.dumps(body)
        return {
            **where,
            **request.only(
                "PipelineDisplayName", "PipelineDescription", "ParallelismConfiguration"
            ),
        }


def lowered_location(location: Mapping[str, Any]) -> dict[str, str]:
    """CloudFormation says Bucket, Key and Version where the API says ObjectKey and VersionId
    too.
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
        wanted = request.only("ModelPackageGroupName", "ModelPackageGroupDescription")
        arn = client.create_model_package_group(**wanted, Tags=request.tags())[
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
        """The policy as it is wanted now; a group has none where the template has none."""
        client, name = request.client("sagemaker"), request["ModelPackageGroupName"]
        policy, before = (
            request.get("ModelPackageGroupPolicy"),
            (request.old or {}).get("ModelPackageGroupPolicy"),
        )
        if policy:
            text = policy if isinstance(policy, str) else json.dumps(policy)
            client.put_model_package_group_policy(ModelPackageGroupName=name, ResourcePolicy=text)
        elif before:
            client.delete_model_package_group_policy(ModelPackageGroupName=name)

    def delete(self, request: Request) -> None:
        name = request["ModelPackageGroupName"]
        client = request.client("sagemaker")
        gone_is_fine(lambda: client.delete_model_package_group(ModelPackageGroupName=name))


TYPES: tuple[ResourceType, ...] = (
    Model(),
    EndpointConfig(),
    Endpoint(),
    Pipeline(),
    ModelPackageGroup(),
)
