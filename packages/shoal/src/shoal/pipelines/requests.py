"""The request of each step, from the environment, the infrastructure and the launch."""

import json
from dataclasses import dataclass
from typing import Any

from shoal.launch import Launch, contract, watch
from shoal.launch.tables import has_nvme, takes_volume_key
from shoal.pipelines import step_names, training_request
from shoal.pipelines.expressions import EXECUTION_ID, Expression, Join, Parameter, Property
from shoal.pipelines.graph import Infrastructure, Parameters
from shoal.pipelines.training_request import given, step_tags
from shoal.settings.frameworks import CLASSICAL, Framework
from shoal.settings.hyperparameters import as_sent
from shoal.settings.names import Names
from shoal.settings.sections import secrets
from shoal.settings.sections.channels import InputMode
from shoal.settings.sections.evaluation import Bound
from shoal.settings.sections.serving import Endpoint
from shoal.settings.settings import Environment

_INPUT = "/opt/ml/processing/input"
_CODE = "/opt/ml/processing/code"
_EVALUATION = "/opt/ml/processing/output/evaluation"
_NUMBER = "([0-9.eE+-]+)"
NOT_WORSE = "not worse than approved"
"""The kind of a gate that needs it."""
EVALUATION_OUTPUT = "evaluation"
EVALUATION_FILE = "evaluation.json"
TRANSFORM_FOLDER = "transform"
"""Folder of the artifact bucket for the results of transform jobs."""
FABRIC_METRICS = {
    "fabric:efa": "efa=([01])",
    "fabric:allreduce_gigabytes_per_second": f"allreduce_gigabytes_per_second={_NUMBER}",
}
"""CloudWatch metric to its value in what the watch's network.py prints (rank 0)."""


def artifacts(names: Names, prefix: str, *below: str) -> Join:
    """Return an execution's own folder in the artifact bucket, or what is `below` it."""
    folder = f"s3://{names.bucket('artifacts')}/{names.folder(prefix)}"
    return Join("/", (folder, EXECUTION_ID, *below))


@dataclass(frozen=True)
class Requests:
    """The requests of all steps of one environment."""

    environment: Environment
    infrastructure: Infrastructure
    launch: Launch
    parameters: Parameters

    @property
    def names(self) -> Names:
        return Names(self.environment)

    @property
    def endpoint_name(self) -> Join:
        """`<pipeline>-<execution id>`, the name of an execution's endpoint and configuration."""
        return Join("-", (self.names.pipeline, EXECUTION_ID))

    @property
    def model_data(self) -> Property:
        """Where training leaves the archive or files; the environment's jobs may write there."""
        return Property(step_names.TRAIN, "ModelArtifacts.S3ModelArtifacts")

    @staticmethod
    def sealed(output: str) -> Property:
        """Return an output of the step Seal."""
        return Property(step_names.SEAL, f"OutputParameters['{output}']")

    def training(self) -> dict[str, Any]:
        """Return CreateTrainingJob's request.

        It has no VolumeKmsKeyId: instances with local storage, such as p4d, refuse it and encrypt
        in hardware.
        """
        settings = self.environment.training
        own = {name: metric.regex for name, metric in settings.metrics.items()}
        metrics = own | FABRIC_METRICS
        request: dict[str, Any] = {
            "RoleArn": self.infrastructure.training_role_arn,
            "AlgorithmSpecification": {
                "TrainingImage": self.infrastructure.training_image_uri or self.launch.image_uri,
                "TrainingInputMode": self._input_mode(),
                "MetricDefinitions": [
                    {"Name": name, "Regex": regex} for name, regex in metrics.items()
                ],
            },
            "HyperParameters": self._hyperparameters(),
            "InputDataConfig": [
                self._channel(name, data) for name, data in self.parameters.channels.items()
            ],
            "OutputDataConfig": {
                "S3OutputPath": artifacts(self.names, "training"),
                "KmsKeyId": self.infrastructure.kms_key_arn,
                "CompressionType": settings.output_compression.upper(),
            },
            "CheckpointConfig": {
                "S3Uri": artifacts(self.names, "checkpoints"),
                "LocalPath": "/opt/ml/checkpoints",
            },
            "ResourceConfig": training_request.resource_config(settings, self.parameters),
            "StoppingCondition": training_request.stopping_condition(settings),
            "VpcConfig": self._training_vpc(),
            "Tags": step_tags(self.names),
        }
        variables = contract.efa_environment(settings) | secrets.variables(settings.secrets)
        index = self.environment.organisation.package_index
        if index and index.url:  # for a script's own pip, too; a password is in no variable
            variables = {"PIP_INDEX_URL": index.url} | variables
        if variables:
            request["Environment"] = variables
        training_request.add_tracking(request, self.names, self.infrastructure.mlflow_app_arn)
        return request | training_request.switches(settings)

    def evaluation(self) -> dict[str, Any]:
        """Return CreateProcessingJob's request: the training's code evaluates the model."""
        settings, built = self.environment.evaluation, self.infrastructure
        images = {"training": built.training_image_uri, "endpoint": built.endpoint_image_uri}
        own_image = images.get(settings.image_of or "", settings.image_uri)
        size = 30
        if self.environment.training.keeps_files and not any(map(has_nvme, settings.candidates)):
            # a model of its files fits where it was trained; an instance with disks of its own
            # mounts them whole, and no larger volume may be requested (API reference,
            # ProcessingClusterConfig; refused without a text, aws/sagemaker-python-sdk issue 4939)
            size = max(size, self.environment.training.volume_size_gb)
        cluster = training_request.evaluation_cluster(settings, size, built.kms_key_arn)
        command = f"mkdir -p {_CODE} && tar -xzf {_INPUT}/code/*.gz -C {_CODE}"
        command += f' && exec python3 {_CODE}/{settings.entry_point} "$@"'
        return {
            "RoleArn": self.infrastructure.evaluation_role_arn,
            "AppSpecification": {
                "ImageUri": own_image or self.launch.evaluation_image_uri,
                "ContainerEntrypoint": ["/bin/bash", "-c", command, "evaluate"],
                "ContainerArguments": [
                    *("--model-dir", f"{_INPUT}/model"),
                    *("--test-dir", f"{_INPUT}/{settings.channel}"),
                    *("--output-dir", _EVALUATION),
                ],
            },
            "ProcessingInputs": [
                _processing_input("code", self.parameters.code_uri),
                _processing_input("model", self.model_data),
                _processing_input(settings.channel, self.parameters.evaluation_data),
            ],
            "ProcessingOutputConfig": {
                "Outputs": [
                    {
                        "OutputName": EVALUATION_OUTPUT,
                        "S3Output": {
                            "S3Uri": artifacts(self.names, "evaluation"),
                            "LocalPath": _EVALUATION,
                            "S3UploadMode": "EndOfJob",
                        },
                    }
                ],
                "KmsKeyId": self.infrastructure.kms_key_arn,
            },
            "ProcessingResources": {"ClusterConfig": cluster},
            "StoppingCondition": {"MaxRuntimeInSeconds": settings.max_runtime_s},
            "NetworkConfig": {"EnableNetworkIsolation": False, "VpcConfig": self._training_vpc()},
            "Tags": step_tags(self.names),
        }

    def registration(self) -> dict[str, Any]:
        """Return CreateModelPackage's request; a version in a group takes no tags of its own."""
        report = artifacts(self.names, "evaluation", EVALUATION_FILE)
        others: dict[str, Expression] = {}
        if self.parameters.data_manifest:
            others["data_manifest"] = self.parameters.data_manifest
        for bound in self.parameters.gates:
            if bound.kind == NOT_WORSE:  # what the next one is compared with
                version = Property(step_names.COMPARE, "OutputParameters['version']")
                value = compared(bound, "value")
                others |= {"compared_with_version": version, f"value_of_{bound.metric}": value}
        supported = {}
        if endpoint := self.environment.endpoint:
            supported = {
                "SupportedContentTypes": list(endpoint.content_types),
                "SupportedResponseMIMETypes": list(endpoint.content_types),
                "SupportedRealtimeInferenceInstanceTypes": [endpoint.instance_type],
            }
        return {
            "ModelPackageGroupName": self.names.model_package_group,
            "ModelApprovalStatus": "PendingManualApproval",
            "SkipModelValidation": "None",
            "InferenceSpecification": {"Containers": [self._container()], **supported},
            "ModelMetrics": {
                "ModelQuality": {"Statistics": {"ContentType": "application/json", "S3Uri": report}}
            },
            "CustomerMetadataProperties": {
                "training_job_name": Property(step_names.TRAIN, "TrainingJobName"),
                "code_uri": self.parameters.code_uri,
                "execution_id": EXECUTION_ID,
                "archive_sha256": self.sealed("archive_sha256"),
                "content_sha256": self.sealed("content_sha256"),
                "gates": self._gates(),
                **others,
            },
        }

    def model(self) -> dict[str, Any]:
        """Return CreateModel's request; SageMaker chooses the name."""
        stacks, endpoint = self.infrastructure, self.environment.endpoint
        return {
            "ExecutionRoleArn": stacks.endpoint_role_arn,
            **given(EnableNetworkIsolation=(endpoint and endpoint.network_isolation) or None),
            "PrimaryContainer": self._container(),
            "VpcConfig": _vpc(stacks.hosting_subnet_ids, stacks.hosting_security_group_ids),
            "Tags": step_tags(self.names),
        }

    def endpoint_config(self, settings: Endpoint) -> dict[str, Any]:
        """Return CreateEndpointConfig's request; SageMaker appends a suffix to the name."""
        variant = {
            "VariantName": "AllTraffic",
            "ModelName": Property(step_names.CREATE_MODEL, "ModelName"),
            "InstanceType": settings.instance_type,
            "InitialInstanceCount": settings.instance_count,
            "InitialVariantWeight": 1.0,
        }
        variant |= given(
            InferenceAmiVersion=self.launch.inference_ami_version,
            ContainerStartupHealthCheckTimeoutInSeconds=settings.container_startup_timeout_s,
            ModelDataDownloadTimeoutInSeconds=settings.model_download_timeout_s,
            VolumeSizeInGB=settings.volume_size_gb,
        )
        if arn := settings.capacity_reservation_arn:  # one plan an endpoint, nothing beside it
            only = {"CapacityReservationPreference": "capacity-reservations-only"}
            variant["CapacityReservationConfig"] = only | {"MlReservationArn": arn}
        request = {
            "EndpointConfigName": self.endpoint_name,
            "ProductionVariants": [variant],
            "Tags": step_tags(self.names),
        }
        if takes_volume_key(settings.instance_type):
            request["KmsKeyId"] = self.infrastructure.kms_key_arn
        return request

    def endpoint(self) -> dict[str, Any]:
        """Return CreateEndpoint's request."""
        return {
            "EndpointName": self.endpoint_name,
            "EndpointConfigName": Property(step_names.CREATE_ENDPOINT_CONFIG, "EndpointConfigName"),
            "Tags": step_tags(self.names),
        }

    def _gates(self) -> Join:
        """Return what the evaluation had to reach, as in `rmse at most 60 and r2 at least 0.2`.

        A value takes letters, digits, spaces and _.:/=+-@, no comma (botocore's pattern of it).
        What it reached is in the report that the entry names: nowhere is it said that RegisterModel
        takes `Std:JsonGet`.
        """
        parts: list[Any] = []
        for bound in self.parameters.gates:
            words, limit = limit_of(bound, self.parameters)
            parts += [f"{bound.metric} {words}", limit, " and "]
        return Join("", tuple(parts[:-1]))

    def _hyperparameters(self) -> dict[str, Any]:
        """Return the launch's hyperparameters and the script's, with the pipeline's parameters."""
        contract: dict[str, Any] = dict(self.launch.hyperparameters)
        if self.parameters.instance_type is None:  # the toolkit reads which one the job has
            contract.pop("sagemaker_instance_type", None)
        elif "sagemaker_instance_type" in contract:
            contract["sagemaker_instance_type"] = self.parameters.instance_type
        if self.launch.needs_model_dir:
            contract["model_dir"] = artifacts(self.names, "training", "model")
        if self.infrastructure.is_watched:
            contract["sagemaker_program"] = json.dumps(watch.PROGRAM)
        contract["sagemaker_submit_directory"] = self.parameters.code_uri
        return contract | {
            name: value.as_text() if isinstance(value, Parameter) else as_sent(value)
            for name, value in self.parameters.hyperparameters.items()
        }

    def _channel(self, name: str, data: Parameter) -> dict[str, Any]:
        settings = self.environment.data.channels[name]
        mounted = self.infrastructure.file_system
        location: dict[str, Any] = {"S3DataType": "S3Prefix", "S3Uri": data}
        source = {"S3DataSource": location | {"S3DataDistributionType": "FullyReplicated"}}
        if mounted and settings.uri is None:
            lustre = {
                "FileSystemId": mounted.file_system_id,
                "FileSystemType": "FSxLustre",
                "FileSystemAccessMode": "ro",
                "DirectoryPath": data,
            }
            source = {"FileSystemDataSource": lustre}
        channel = {"ChannelName": name, "DataSource": source, "InputMode": self._input_mode()}
        return channel | given(ContentType=settings.content_type or None)

    def _input_mode(self) -> str:
        """Return the mode as the API knows it: a file system is mounted in the mode File."""
        mounted = self.infrastructure.file_system
        return str(InputMode.FILE if mounted else self.environment.data.input_mode)

    def _container(self) -> dict[str, Any]:
        data: dict[str, Any] = {"ModelDataUrl": self.sealed("model_data_url")}
        if self.environment.training.keeps_files:
            files = {"S3Uri": data["ModelDataUrl"], "S3DataType": "S3Prefix"}
            data = {"ModelDataSource": {"S3DataSource": files | {"CompressionType": "None"}}}
        return {
            "Image": self.infrastructure.endpoint_image_uri or self.launch.inference_image_uri,
            **data,
            "Environment": self._serving_environment(),
        }

    def _serving_environment(self) -> dict[str, str]:
        """Return what SDK v2 sets for a model of the framework, or what the endpoint's own
        container is told.

        TensorFlow Serving's container finds code/inference.py by itself.
        """
        endpoint = self.environment.endpoint
        if endpoint and endpoint.has_own_server:
            return endpoint.environment
        if self.environment.training.framework is Framework.TENSORFLOW:
            return {"SAGEMAKER_TFS_NGINX_LOGLEVEL": "info"}
        # The classical images install the script by pip at each start (sagemaker-containers,
        # _modules.import_module; read), and pip 25.3 and later would fetch setuptools for that:
        # 0 is how pip's variable says no build isolation.
        without_index = {"PIP_NO_BUILD_ISOLATION": "0"}
        return {
            **(without_index if self.environment.training.framework in CLASSICAL else {}),
            "SAGEMAKER_PROGRAM": "inference.py",
            "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
            "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
            "SAGEMAKER_REGION": self.environment.region,
            **(endpoint.environment if endpoint else {}),
        }

    def _training_vpc(self) -> dict[str, Any]:
        stacks = self.infrastructure
        return _vpc(stacks.training_subnet_ids, stacks.training_security_group_ids)


def limit_of(bound: Bound, parameters: Parameters) -> tuple[str, Expression]:
    """Return the two parts of a text such as `at least 0.98`."""
    if bound.kind == NOT_WORSE:
        return "", compared(bound, "limit")
    return f"{bound.kind} ", parameters.gates[bound]


def compared(bound: Bound, output: str) -> Property:
    """Return what the step Compare says of a gate: `value`, `margin`, `limit` or `reason`."""
    return Property(step_names.COMPARE, f"OutputParameters['{output}_of_{bound.metric}']")


def _vpc(subnet_ids: tuple[str, ...], security_group_ids: tuple[str, ...]) -> dict[str, Any]:
    return {"Subnets": list(subnet_ids), "SecurityGroupIds": list(security_group_ids)}


def _processing_input(name: str, uri: Expression) -> dict[str, Any]:
    return {
        "InputName": name,
        "S3Input": {
            "S3Uri": uri,
            "LocalPath": f"{_INPUT}/{name}",
            "S3DataType": "S3Prefix",
            "S3InputMode": "File",
            "S3DataDistributionType": "FullyReplicated",
            "S3CompressionType": "None",
        },
    }
