"""Amazon SageMaker: what a request asks for (instances, network, keys, roles) as the condition keys
that guard rails are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, pass_role, same, table

SERVICE = "sagemaker.amazonaws.com"
UNSCALED = "SageMaker developer guide, Delete endpoints configured for auto scaling"
VOLUME_KEY = "SageMaker developer guide, API permissions reference: CreateEndpoint"
Context = dict[str, ContextValue]
Facts = Callable[[Asked], Context]


def named(asked: Asked, kind: str, parameter: str) -> str:
    """The ARN of a resource by its name, which SageMaker lower-cases, or the ARN that the request
    gives.
    """
    name = str(asked.get(parameter, "*"))
    return name if name.startswith("arn:") else asked.arn("sagemaker", f"{kind}/{name.lower()}")


def _creates(kind: str, parameter: str, facts: Facts, role: str = "") -> Rule:
    """A resource is made: itself, its tags, and the role that it gets."""

    def rule(asked: Asked) -> Iterator[Question]:
        arn = named(asked, kind, parameter)
        yield Question(
            f"sagemaker:{asked.call.operation}", arn, {**asked.tagging(), **facts(asked)}
        )
        yield from _tagged(asked, arn)
        yield from pass_role(asked.get(role), SERVICE, arn)

    return rule


def _tagged(asked: Asked, arn: str) -> Iterator[Question]:
    if asked.tagging():
        yield Question(
            "sagemaker:AddTags",
            arn,
            {**asked.tagging(), "sagemaker:TaggingAction": asked.call.operation},
        )


def _present(**values: Any) -> Context:
    """Condition keys of the values that the request has, as strings or lists of strings."""
    return {
        f"sagemaker:{key}": _written(value)
        for key, value in values.items()
        if value is not None and value != []
    }


def _written(value: Any) -> ContextValue:
    if isinstance(value, list):
        return [str(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(asked: Asked, holder: Mapping[str, Any], name: str) -> str | None:
    given = holder.get(name)
    return asked.known.key_arn(str(given)) if given else None


def _network(vpc: Mapping[str, Any] | None) -> Context:
    return _present(
        VpcSubnets=(vpc or {}).get("Subnets"),
        VpcSecurityGroupIds=(vpc or {}).get("SecurityGroupIds"),
    )


def _training(asked: Asked) -> Context:
    resources = asked.get("ResourceConfig", {})
    groups = [group.get("InstanceType") for group in resources.get("InstanceGroups") or []]
    types = [resources["InstanceType"]] if resources.get("InstanceType") else groups
    return {
        **_network(asked.get("VpcConfig")),
        **_file_system(asked),
        **_present(
            InstanceTypes=types,
            KeepAlivePeriod=resources.get("KeepAlivePeriodInSeconds"),
            MaxRuntimeInSeconds=asked.get("StoppingCondition", {}).get("MaxRuntimeInSeconds"),
            OutputKmsKeyArn=_key(asked, asked.get("OutputDataConfig", {}), "KmsKeyId"),
            VolumeKmsKeyArn=_key(asked, resources, "VolumeKmsKeyId"),
            NetworkIsolation=asked.get("EnableNetworkIsolation"),
            InterContainerTrafficEncryption=asked.get("EnableInterContainerTrafficEncryption"),
            EnableRemoteDebug=asked.get("RemoteDebugConfig", {}).get("EnableRemoteDebug"),
        ),
    }


def _file_system(asked: Asked) -> Context:
    """Each key has one value: of several channels that of one that may write, so that none hides
    behind another.

    What SageMaker sends for channels that differ is documented nowhere.
    """
    sources = [
        channel.get("DataSource", {}).get("FileSystemDataSource")
        for channel in asked.get("InputDataConfig", [])
    ]
    for source in sorted(
        filter(None, sources), key=lambda each: each.get("FileSystemAccessMode") != "rw"
    ):
        return _present(
            FileSystemId=source.get("FileSystemId"),
            FileSystemType=source.get("FileSystemType"),
            FileSystemAccessMode=source.get("FileSystemAccessMode"),
            FileSystemDirectoryPath=source.get("DirectoryPath"),
        )
    return {}


def _processing(asked: Asked) -> Context:
    cluster = asked.get("ProcessingResources", {}).get("ClusterConfig", {})
    network = asked.get("NetworkConfig", {})
    return {
        **_network(network.get("VpcConfig")),
        **_present(
            InstanceTypes=[cluster["InstanceType"]] if cluster.get("InstanceType") else None,
            MaxRuntimeInSeconds=asked.get("StoppingCondition", {}).get("MaxRuntimeInSeconds"),
            OutputKmsKeyArn=_key(asked, asked.get("ProcessingOutputConfig", {}), "KmsKeyId"),
            VolumeKmsKeyArn=_key(asked, cluster, "VolumeKmsKeyId"),
            NetworkIsolation=network.get("EnableNetworkIsolation"),
            InterContainerTrafficEncryption=network.get("EnableInterContainerTrafficEncryption"),
        ),
    }


def _model(asked: Asked) -> Context:
    return {
        **_network(asked.get("VpcConfig")),
        **_present(NetworkIsolation=asked.get("EnableNetworkIsolation")),
    }


def _endpoint_config(asked: Asked) -> Context:
    variants = asked.get("ProductionVariants", [])
    serverless = [
        variant["ServerlessConfig"] for variant in variants if variant.get("ServerlessConfig")
    ]
    models = [
        asked.arn("sagemaker", f"model/{variant['ModelName'].lower()}")
        for variant in variants
        if variant.get("ModelName")
    ]
    return {
        **_network(asked.get("VpcConfig")),
        **_present(
            InstanceTypes=[
                variant["InstanceType"] for variant in variants if variant.get("InstanceType")
            ],
            ModelArn=models[0] if models else None,
            VolumeKmsKeyArn=_key(asked, asked.call.parameters, "KmsKeyId"),
            ServerlessMaxConcurrency=serverless[0].get("MaxConcurrency") if serverless else None,
            ServerlessMemorySize=serverless[0].get("MemorySizeInMB") if serverless else None,
        ),
    }


def _plain(_asked: Asked) -> Context:
    return {}


def _approval(asked: Asked) -> Context:
    life = asked.get("ModelLifeCycle", {})
    facts = _present(ModelApprovalStatus=asked.get("ModelApprovalStatus"))
    return facts | _present(
        **{f"ModelLifeCycle:{key}": life.get(key) for key in ("Stage", "StageStatus")}
    )


def _versions(asked: Asked, group: str) -> str:
    """The ARN of every version of a group, which is named or given by its ARN."""
    arn = (
        group
        if group.startswith("arn:")
        else asked.arn("sagemaker", f"model-package-group/{group.lower()}")
    )
    return f"{arn.replace(':model-package-group/', ':model-package/')}/*"


def _create_package(asked: Asked) -> Iterator[Question]:
    """A version gets its number only when it is made."""
    group = str(asked.get("ModelPackageGroupName", ""))
    arn = (
        _versions(asked, group)
        if group
        else asked.arn(
            "sagemaker", f"model-package/{str(asked.get('ModelPackageName', '*')).lower()}"
        )
    )
    yield Question("sagemaker:CreateModelPackage", arn, {**asked.tagging(), **_approval(asked)})
    yield from _tagged(asked, arn)


def _update_package(asked: Asked) -> Iterator[Question]:
    arn = named(asked, "model-package", "ModelPackageArn")
    yield Question("sagemaker:UpdateModelPackage", arn, {**asked.tags_of(arn), **_approval(asked)})


def _list_packages(asked: Asked) -> Iterator[Question]:
    group = str(asked.get("ModelPackageGroupName", ""))
    yield Question("sagemaker:ListModelPackages", _versions(asked, group) if group else "*")


def _deploy(asked: Asked) -> Iterator[Question]:
    """CreateEndpoint and UpdateEndpoint ask for the endpoint and for its configuration, and lend
    the key of the volumes.
    """
    endpoint = named(asked, "endpoint", "EndpointName")
    for arn in (endpoint, named(asked, "endpoint-config", "EndpointConfigName")):
        yield Question(
            f"sagemaker:{asked.call.operation}", arn, {**asked.tags_of(arn), **asked.tagging()}
        )
    yield from _tagged(asked, endpoint)
    key = asked.known.key_of_endpoint_config(str(asked.get("EndpointConfigName")))
    if key:
        lent: Context = {"kms:GrantIsForAWSResource": "true", "kms:CallerAccount": asked.account}
        yield Question("kms:CreateGrant", key, {**asked.tags_of(key), **lent}, VOLUME_KEY)


def _delete_endpoint(asked: Asked) -> Iterator[Question]:
    """What scales the endpoint is deregistered with it, in the caller's name."""
    arn = named(asked, "endpoint", "EndpointName")
    yield Question("sagemaker:DeleteEndpoint", arn, asked.tags_of(arn))
    if asked.known.is_scaled(arn.rpartition("/")[2]):
        scope: Context = {
            "application-autoscaling:service-namespace": "sagemaker",
            "application-autoscaling:scalable-dimension": "sagemaker:variant:DesiredInstanceCount",
        }
        target = asked.arn("application-autoscaling", "scalable-target/*")
        yield Question("application-autoscaling:DeregisterScalableTarget", target, scope, UNSCALED)


def _existing(kind: str, parameter: str) -> Rule:
    def rule(asked: Asked) -> Iterator[Question]:
        arn = named(asked, kind, parameter)
        yield Question(f"sagemaker:{asked.call.operation}", arn, {**asked.tags_of(arn)})

    return rule


def _start_pipeline(asked: Asked) -> Iterator[Question]:
    arn = named(asked, "pipeline", "PipelineName")
    yield Question(
        "sagemaker:StartPipelineExecution",
        arn,
        {**asked.tags_of(arn), **_present(PipelineVersionId=asked.get("PipelineVersionId"))},
    )


def _update_pipeline(asked: Asked) -> Iterator[Question]:
    arn = named(asked, "pipeline", "PipelineName")
    yield Question("sagemaker:UpdatePipeline", arn, {**asked.tags_of(arn)})
    yield from pass_role(asked.get("RoleArn"), SERVICE, arn)


def _on_arn(asked: Asked) -> Iterator[Question]:
    """AddTags, DeleteTags and ListTags, on whatever has the ARN."""
    arn = asked.get("ResourceArn")
    action = {"sagemaker:TaggingAction": "AddTags"} if asked.call.operation == "AddTags" else {}
    yield Question(
        f"sagemaker:{asked.call.operation}",
        arn,
        {**asked.tags_of(arn), **asked.tagging(), **action},
    )


def _all(verbs: str, kind: str, parameter: str, noun: str) -> dict[str, Rule]:
    return {f"{verb}{noun}": _existing(kind, parameter) for verb in verbs.split()}


RULES: Mapping[str, Rule] = table(
    "sagemaker",
    {
        "CreateTrainingJob": _creates("training-job", "TrainingJobName", _training, "RoleArn"),
        "CreateProcessingJob": _creates(
            "processing-job", "ProcessingJobName", _processing, "RoleArn"
        ),
        "CreateModel": _creates("model", "ModelName", _model, "ExecutionRoleArn"),
        "CreateEndpointConfig": _creates(
            "endpoint-config", "EndpointConfigName", _endpoint_config, "ExecutionRoleArn"
        ),
        "CreateModelPackageGroup": _creates("model-package-group", "ModelPackageGroupName", _plain),
        "CreatePipeline": _creates("pipeline", "PipelineName", _plain, "RoleArn"),
        "CreateEndpoint": _deploy,
        "UpdateEndpoint": _deploy,
        "UpdateEndpointWeightsAndCapacities": _existing("endpoint", "EndpointName"),
        "CreateModelPackage": _create_package,
        "UpdateModelPackage": _update_package,
        "ListModelPackages": _list_packages,
        "StartPipelineExecution": _start_pipeline,
        "UpdatePipeline": _update_pipeline,
        **_all("Describe Stop", "training-job", "TrainingJobName", "TrainingJob"),
        **_all("Describe Stop", "processing-job", "ProcessingJobName", "ProcessingJob"),
        **_all("Describe Delete", "model", "ModelName", "Model"),
        **_all("Describe Delete", "endpoint-config", "EndpointConfigName", "EndpointConfig"),
        **_all("Describe Invoke", "endpoint", "EndpointName", "Endpoint"),
        "DeleteEndpoint": _delete_endpoint,
        **_all("Describe Delete", "model-package", "ModelPackageName", "ModelPackage"),
        **_all(
            "Describe Delete", "model-package-group", "ModelPackageGroupName", "ModelPackageGroup"
        ),
        **_all(
            "Put Get Delete",
            "model-package-group",
            "ModelPackageGroupName",
            "ModelPackageGroupPolicy",
        ),
        **_all("Describe Delete", "pipeline", "PipelineName", "Pipeline"),
        **_all("Describe Stop", "pipeline", "PipelineExecutionArn", "PipelineExecution"),
        "ListPipelineExecutions": _existing("pipeline", "PipelineName"),
        "ListPipelineExecutionSteps": _existing("pipeline", "PipelineExecutionArn"),
        "ListPipelineParametersForExecution": _existing("pipeline", "PipelineExecutionArn"),
        "DescribePipelineDefinitionForExecution": _existing("pipeline", "PipelineExecutionArn"),
        **same("AddTags DeleteTags ListTags", _on_arn),
        **same(
            "ListTrainingJobs ListProcessingJobs ListModels ListEndpointConfigs ListEndpoints"
            " ListModelPackageGroups ListPipelines",
            "*",
        ),
    },
)
