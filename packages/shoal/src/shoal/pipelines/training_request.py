"""What requests say of tags and instances, and CreateTrainingJob's of time and MLflow."""

from typing import Any

from pydantic.alias_generators import to_pascal

from shoal.launch.tables import takes_volume_key
from shoal.pipelines.expressions import EXECUTION_ARN, EXECUTION_ID, Expression, Join
from shoal.pipelines.graph import Parameters
from shoal.settings.names import ENVIRONMENT_TAG, EXECUTION_TAG, PIPELINE_TAG, WORKLOAD_TAG, Names
from shoal.settings.sections.evaluation import Evaluation
from shoal.settings.settings import Training

MLFLOW_TAG = "shoal.execution_arn"  # by which `shoal report --mlflow` finds the run


def step_tags(names: Names) -> list[dict[str, Any]]:
    """Return the tags that attribute, age and budget what is created, and the customer's."""
    environment = names.environment
    tags: dict[str, str | Expression] = {
        PIPELINE_TAG: names.pipeline,
        EXECUTION_TAG: EXECUTION_ID,
        ENVIRONMENT_TAG: environment.name,
        "shoal:ttl-minutes": str(environment.ttl_minutes),
    }
    if environment.workloads:
        tags[WORKLOAD_TAG] = names.prefix
    tags |= environment.workload_tags
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def add_tracking(request: dict[str, Any], names: Names, app_arn: str | None) -> None:
    """Add to CreateTrainingJob's request where it tracks; `app_arn` is the App that was made.

    MLflow reads all variables but the run's name (3.17.2, environment_variables.py). The request's
    MlflowConfig is left out: no page of AWS has it in a job with an image of one's own.
    """
    mlflow = names.environment.mlflow
    arn = mlflow and (mlflow.arn or app_arn)
    if mlflow is None or not (server := mlflow.tracking_uri or arn):
        return
    request["Environment"] = {
        "MLFLOW_TRACKING_URI": server,
        "MLFLOW_EXPERIMENT_NAME": names.pipeline,
        "MLFLOW_RUN_NAME": EXECUTION_ID,
        "MLFLOW_RUN_CONTEXT": Join("", (f'{{"{MLFLOW_TAG}": "', EXECUTION_ARN, '"}')),
        **request.get("Environment", {}),
    }


def resource_config(training: Training, parameters: Parameters) -> dict[str, Any]:
    """Return `ResourceConfig`: one type, or a list of them (botocore 1.44.5: InstancePreferences
    excludes InstanceType, and a count at each of its types excludes InstanceCount).
    """
    capacity = training.capacity
    preferences = [
        {to_pascal(key): value for key, value in each.model_dump(exclude_none=True).items()}
        for each in capacity.preferences
    ]
    return given(
        InstancePreferences=preferences or None,
        InstanceType=parameters.instance_type,
        InstanceCount=parameters.instance_count,
        VolumeSizeInGB=training.volume_size_gb,
        TrainingPlanArn=capacity.training_plan_arn,
        KeepAlivePeriodInSeconds=capacity.keep_alive_s,
    )


def evaluation_cluster(evaluation: Evaluation, size_gb: int, key_arn: str) -> dict[str, Any]:
    """Return CreateProcessingJob's `ClusterConfig`: one type, or a list of them."""
    types: dict[str, Any] = {"InstanceType": evaluation.instance_type}
    if evaluation.capacity.preferences:
        types = {"InstancePreferences": [{"InstanceType": each} for each in evaluation.candidates]}
    key = {"VolumeKmsKeyId": key_arn} if takes_volume_key(evaluation.instance_type) else {}
    return {**types, "InstanceCount": 1, "VolumeSizeInGB": size_gb, **key}


def stopping_condition(training: Training) -> dict[str, Any]:
    """Return `StoppingCondition`."""
    return given(
        MaxRuntimeInSeconds=training.max_runtime_s,
        MaxWaitTimeInSeconds=training.max_wait_s if training.spot else None,
        MaxPendingTimeInSeconds=training.capacity.max_pending_s,
    )


def switches(training: Training) -> dict[str, Any]:
    """Return what is on: health checks, a shell for people, spot capacity, encryption."""
    capacity = training.capacity
    return given(
        InfraCheckConfig={"EnableInfraCheck": True} if capacity.infra_check else None,
        RemoteDebugConfig={"EnableRemoteDebug": True} if capacity.remote_debug else None,
        EnableManagedSpotTraining=training.spot or None,
        EnableInterContainerTrafficEncryption=training.encrypt_between_containers or None,
    )


def given(**values: Any) -> dict[str, Any]:
    """Return the fields of a request that have a value."""
    return {key: value for key, value in values.items() if value is not None}
