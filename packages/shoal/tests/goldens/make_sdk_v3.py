"""Builds our pipeline with SageMaker's Python SDK v3 from the same inputs, and writes its
definition to sdk_v3.json.

Run manually, in a virtual environment of its own (the SDK is no dependency of this project):

    python3.11 -m venv sdk-v3 && sdk-v3/bin/pip install -r
    packages/shoal/tests/goldens/requirements-sdk-v3.txt sdk-v3/bin/python
    packages/shoal/tests/goldens/make_sdk_v3.py

No request leaves the machine: sockets are refused. Nothing of this project is imported: the graph
is written a second time here, in the SDK's own terms, so that equality means that both say the same
thing.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import socket
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

REGION, ACCOUNT, NAME = "us-east-1", "111122223333", "shoal-mnist-golden"
os.environ.update(
    AWS_DEFAULT_REGION=REGION, AWS_EC2_METADATA_DISABLED="true", SAGEMAKER_VALIDATE_ROLE="false"
)


def refuse(*_: object, **__: object) -> NoReturn:
    raise OSError("this script sends nothing")


socket.socket.connect = refuse  # type: ignore[method-assign]
socket.getaddrinfo = refuse
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")

import boto3  # noqa: E402 - the SDK reads the environment while it is imported
from sagemaker.core.lambda_helper import Lambda  # noqa: E402
from sagemaker.core.model_registry import create_model_package_from_containers  # noqa: E402
from sagemaker.core.network import NetworkConfig  # noqa: E402
from sagemaker.core.parameter import ContinuousParameter  # noqa: E402
from sagemaker.core.processing import Processor  # noqa: E402
from sagemaker.core.shapes import (  # noqa: E402
    ProcessingInput,
    ProcessingOutput,
    ProcessingS3Input,
    ProcessingS3Output,
)
from sagemaker.core.training.configs import (  # noqa: E402
    CheckpointConfig,
    Compute,
    InputData,
    MetricDefinition,
    Networking,
    OutputDataConfig,
    StoppingCondition,
    Tag,
)
from sagemaker.core.transformer import Transformer  # noqa: E402
from sagemaker.core.workflow.conditions import (  # noqa: E402
    ConditionGreaterThanOrEqualTo,
    ConditionLessThanOrEqualTo,
)
from sagemaker.core.workflow.execution_variables import ExecutionVariables  # noqa: E402
from sagemaker.core.workflow.functions import Join, JsonGet  # noqa: E402
from sagemaker.core.workflow.parameters import (  # noqa: E402
    ParameterFloat,
    ParameterInteger,
    ParameterString,
)
from sagemaker.core.workflow.pipeline_context import PipelineSession  # noqa: E402
from sagemaker.core.workflow.properties import PropertyFile  # noqa: E402
from sagemaker.mlops.workflow.callback_step import (  # noqa: E402
    CallbackOutput,
    CallbackOutputTypeEnum,
    CallbackStep,
)
from sagemaker.mlops.workflow.condition_step import ConditionStep  # noqa: E402
from sagemaker.mlops.workflow.endpoint_step import EndpointConfigStep, EndpointStep  # noqa: E402
from sagemaker.mlops.workflow.fail_step import FailStep  # noqa: E402
from sagemaker.mlops.workflow.lambda_step import (  # noqa: E402
    LambdaOutput,
    LambdaOutputTypeEnum,
    LambdaStep,
)
from sagemaker.mlops.workflow.model_step import ModelStep  # noqa: E402
from sagemaker.mlops.workflow.pipeline import Pipeline  # noqa: E402
from sagemaker.mlops.workflow.retry import (  # noqa: E402
    SageMakerJobExceptionTypeEnum,
    SageMakerJobStepRetryPolicy,
    StepExceptionTypeEnum,
    StepRetryPolicy,
)
from sagemaker.mlops.workflow.steps import (  # noqa: E402
    ProcessingStep,
    TrainingStep,
    TransformStep,
    TuningStep,
)
from sagemaker.train.model_trainer import ModelTrainer  # noqa: E402
from sagemaker.train.tuner import HyperparameterTuner  # noqa: E402

HERE = Path(__file__).parent
INFRASTRUCTURE: dict[str, Any] = json.loads(
    (HERE / "infrastructure.json").read_text(encoding="utf-8")
)
REGISTRY = f"763104351884.dkr.ecr.{REGION}.amazonaws.com"
TRAINING_IMAGE = f"{REGISTRY}/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker"
EVALUATION_IMAGE = f"{REGISTRY}/pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker"
INFERENCE_IMAGE = f"{REGISTRY}/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"
DATA = f"s3://{NAME}-data-{ACCOUNT}-{REGION}/datasets/mnist"
ARTIFACTS = f"s3://{NAME}-artifacts-{ACCOUNT}-{REGION}"
EXECUTION_ID = ExecutionVariables.PIPELINE_EXECUTION_ID
UNPACK = (
    "mkdir -p /opt/ml/processing/code && tar -xzf /opt/ml/processing/input/code/*.gz -C"
    " /opt/ml/processing/code"
)
TAGS = {
    "shoal:pipeline": NAME,
    "shoal:execution": EXECUTION_ID,
    "shoal:environment": "golden",
    "shoal:ttl-minutes": "60",
}
TAG_LIST = [{"Key": key, "Value": value} for key, value in TAGS.items()]
NUMBER = "([0-9.eE+-]+)"
METRICS = {
    "train:loss": f"train_loss={NUMBER}",
    "train:images_per_second": f"images_per_second={NUMBER}",
    "test:loss": f"test_loss={NUMBER}",
    "test:accuracy": f"test_accuracy={NUMBER}",
    "fabric:efa": "efa=([01])",
    "fabric:allreduce_gigabytes_per_second": f"allreduce_gigabytes_per_second={NUMBER}",
}
CONTENT_TYPES = ["application/json", "application/x-npy"]

CREATE_CALL = StepRetryPolicy(
    exception_types=[StepExceptionTypeEnum.SERVICE_FAULT, StepExceptionTypeEnum.THROTTLING],
    max_attempts=5,
    interval_seconds=5,
)
JOB = SageMakerJobStepRetryPolicy(
    exception_types=[SageMakerJobExceptionTypeEnum.CAPACITY_ERROR],
    failure_reason_types=[SageMakerJobExceptionTypeEnum.INTERNAL_ERROR],
    max_attempts=5,
    interval_seconds=60,
)

TRAIN_DATA_URI = ParameterString("TrainDataUri", default_value=f"{DATA}/train/")
TEST_DATA_URI = ParameterString("TestDataUri", default_value=f"{DATA}/test/")
CODE_URI = ParameterString("CodeUri", default_value=INFRASTRUCTURE["code_uri"])
INSTANCE_TYPE = ParameterString("InstanceType", default_value="ml.p4d.24xlarge")
INSTANCE_COUNT = ParameterInteger("InstanceCount", default_value=2)
MIN_ACCURACY = ParameterFloat("MinAccuracy", default_value=0.98)
MAX_RMSE = ParameterFloat("MaxRmse", default_value=60.0)
EPOCHS = ParameterInteger("Epochs", default_value=2)
BATCH_SIZE = ParameterInteger("BatchSize", default_value=256)
LEARNING_RATE = ParameterFloat("LearningRate", default_value=0.003)
AUGMENT = ParameterString("Augment", default_value="true", enum_values=["true", "false"])
PARAMETERS = [TRAIN_DATA_URI, TEST_DATA_URI, CODE_URI, INSTANCE_TYPE, INSTANCE_COUNT]
PARAMETERS += [MIN_ACCURACY, MAX_RMSE, EPOCHS, BATCH_SIZE, LEARNING_RATE, AUGMENT]


def pipeline_session() -> PipelineSession:
    boto = boto3.Session(
        aws_access_key_id="golden", aws_secret_access_key="golden", region_name=REGION
    )
    opt_out = {
        "SchemaVersion": "1.0",
        "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}},
    }
    return PipelineSession(boto_session=boto, default_bucket="golden", sagemaker_config=opt_out)


def model_trainer(session: PipelineSession) -> ModelTrainer:
    trainer = ModelTrainer(
        sagemaker_session=session,
        role=INFRASTRUCTURE["training_role_arn"],
        training_image=TRAINING_IMAGE,
        training_input_mode="File",
        base_job_name="train",
        compute=Compute(
            instance_type=INSTANCE_TYPE,
            instance_count=INSTANCE_COUNT,
            volume_size_in_gb=100,
            enable_managed_spot_training=True,
        ),
        networking=Networking(
            subnets=INFRASTRUCTURE["training_subnet_ids"],
            security_group_ids=INFRASTRUCTURE["training_security_group_ids"],
        ),
        stopping_condition=StoppingCondition(
            max_runtime_in_seconds=3600, max_wait_time_in_seconds=7200
        ),
        output_data_config=OutputDataConfig(
            s3_output_path=Join(on="/", values=[f"{ARTIFACTS}/training", EXECUTION_ID]),
            kms_key_id=INFRASTRUCTURE["kms_key_arn"],
            compression_type="GZIP",
        ),
        checkpoint_config=CheckpointConfig(
            s3_uri=Join(on="/", values=[f"{ARTIFACTS}/checkpoints", EXECUTION_ID]),
            local_path="/opt/ml/checkpoints",
        ),
        environment={"FI_PROVIDER": "efa", "FI_EFA_USE_HUGE_PAGE": "0", "FI_LOG_LEVEL": "warn"},
        hyperparameters={
            "epochs": EPOCHS.to_string(),
            "batch-size": BATCH_SIZE.to_string(),
            "learning-rate": LEARNING_RATE.to_string(),
            "optimizer": "adam",
            "augment": AUGMENT,
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": CODE_URI,
            "sagemaker_region": f'"{REGION}"',
            "sagemaker_container_log_level": "20",
            "sagemaker_instance_type": INSTANCE_TYPE,
            "sagemaker_distributed_dataparallel_enabled": "true",
            "sagemaker_distributed_dataparallel_custom_mpi_options": (
                '"-verbose --NCCL_DEBUG VERSION"'
            ),
        },
        tags=[Tag(key=key, value=value) for key, value in TAGS.items()],
    )
    trainer._metric_definitions = [
        MetricDefinition(name=name, regex=regex) for name, regex in METRICS.items()
    ]
    return trainer


def channels() -> list[InputData]:
    uris = {"train": TRAIN_DATA_URI, "test": TEST_DATA_URI}
    return [InputData(channel_name=name, data_source=uri) for name, uri in uris.items()]


def train_step(session: PipelineSession) -> TrainingStep:
    return TrainingStep(
        name="Train",
        step_args=model_trainer(session).train(input_data_config=channels()),
        retry_policies=[CREATE_CALL, JOB],
    )


def processing_input(name: str, uri: Any) -> ProcessingInput:
    source = ProcessingS3Input(
        s3_uri=uri,
        local_path=f"/opt/ml/processing/input/{name}",
        s3_data_type="S3Prefix",
        s3_input_mode="File",
    )
    return ProcessingInput(input_name=name, s3_input=source)


def evaluate_step(
    session: PipelineSession, model_data: Any, report: PropertyFile
) -> ProcessingStep:
    output = "/opt/ml/processing/output/evaluation"
    processor = Processor(
        role=INFRASTRUCTURE["evaluation_role_arn"],
        image_uri=EVALUATION_IMAGE,
        instance_count=1,
        instance_type="ml.m5.xlarge",
        volume_size_in_gb=30,
        volume_kms_key=INFRASTRUCTURE["kms_key_arn"],
        output_kms_key=INFRASTRUCTURE["kms_key_arn"],
        entrypoint=[
            "/bin/bash",
            "-c",
            f'{UNPACK} && exec python3 /opt/ml/processing/code/evaluate.py "$@"',
            "evaluate",
        ],
        sagemaker_session=session,
        base_job_name="evaluate",
        max_runtime_in_seconds=1800,
        network_config=NetworkConfig(
            subnets=INFRASTRUCTURE["training_subnet_ids"],
            security_group_ids=INFRASTRUCTURE["training_security_group_ids"],
            enable_network_isolation=False,
        ),
        tags=TAG_LIST,
    )
    target = ProcessingS3Output(
        s3_uri=Join(on="/", values=[f"{ARTIFACTS}/evaluation", EXECUTION_ID]),
        local_path=output,
        s3_upload_mode="EndOfJob",
    )
    arguments = processor.run(
        inputs=[
            processing_input("code", CODE_URI),
            processing_input("model", model_data),
            processing_input("test", TEST_DATA_URI),
        ],
        outputs=[ProcessingOutput(output_name="evaluation", s3_output=target)],
        arguments=[
            "--model-dir",
            "/opt/ml/processing/input/model",
            "--test-dir",
            "/opt/ml/processing/input/test",
            "--output-dir",
            output,
        ],
    )
    return ProcessingStep(
        name="Evaluate",
        step_args=arguments,
        property_files=[report],
        retry_policies=[CREATE_CALL, JOB],
    )


def container(model_data: Any) -> dict[str, Any]:
    environment = {
        "SAGEMAKER_PROGRAM": "inference.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
        "SAGEMAKER_CONTAINER_LOG_LEVEL": "20",
        "SAGEMAKER_REGION": REGION,
    }
    return {"Image": INFERENCE_IMAGE, "ModelDataUrl": model_data, "Environment": environment}


class _HasSession:
    """What ModelStep wants to see of a model: the SDK has no public producer without uploading
    code.
    """

    def __init__(self, session: PipelineSession) -> None:
        self.sagemaker_session = session


def seal_step(train: TrainingStep, report: PropertyFile) -> LambdaStep:
    inputs = {
        "execution_id": EXECUTION_ID,
        "model_data_url": train.properties.ModelArtifacts.S3ModelArtifacts,
    } | {
        name: JsonGet(step_name="Evaluate", property_file=report, json_path=f"model.{name}")
        for name in ("archive_sha256", "archive_composite_sha256", "content_sha256")
    }
    outputs = ("status", "model_data_url", "archive_sha256", "content_sha256")
    return lambda_step("Seal", inputs, *outputs)


def register_step(session: PipelineSession, train: TrainingStep, seal: LambdaStep) -> ModelStep:
    session.init_model_step_arguments(_HasSession(session))
    report = Join(on="/", values=[f"{ARTIFACTS}/evaluation", EXECUTION_ID, "evaluation.json"])
    gates = ["accuracy at least ", MIN_ACCURACY, " and ", "rmse at most ", MAX_RMSE]
    arguments = create_model_package_from_containers(
        session,
        containers=[container(seal.properties.Outputs["model_data_url"])],
        content_types=CONTENT_TYPES,
        response_types=CONTENT_TYPES,
        inference_instances=["ml.m5.xlarge"],
        model_package_group_name=NAME,
        approval_status="PendingManualApproval",
        model_metrics={
            "ModelQuality": {"Statistics": {"ContentType": "application/json", "S3Uri": report}}
        },
        customer_metadata_properties={
            "training_job_name": train.properties.TrainingJobName,
            "code_uri": CODE_URI,
            "execution_id": EXECUTION_ID,
            "archive_sha256": seal.properties.Outputs["archive_sha256"],
            "content_sha256": seal.properties.Outputs["content_sha256"],
            "gates": Join(on="", values=gates),
        },
    )
    session.context = None
    return ModelStep(name="Register", step_args=arguments, retry_policies=[CREATE_CALL])


def model_step(session: PipelineSession, seal: LambdaStep, register: ModelStep) -> ModelStep:
    session.init_model_step_arguments(_HasSession(session))
    request = {
        "ExecutionRoleArn": INFRASTRUCTURE["endpoint_role_arn"],
        "PrimaryContainer": container(seal.properties.Outputs["model_data_url"]),
        "VpcConfig": {
            "Subnets": INFRASTRUCTURE["hosting_subnet_ids"],
            "SecurityGroupIds": INFRASTRUCTURE["hosting_security_group_ids"],
        },
        "Tags": TAG_LIST,
    }
    arguments = session._intercept_create_request(request, None, "create_model")
    session.context = None
    return ModelStep(
        name="CreateModel", step_args=arguments, depends_on=[register], retry_policies=[CREATE_CALL]
    )


def endpoint_steps(
    session: PipelineSession, model: ModelStep
) -> tuple[EndpointConfigStep, EndpointStep]:
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": model.properties.ModelName,
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": 1,
        "InitialVariantWeight": 1.0,
    }
    config_arguments = session.create_endpoint_config(
        name=Join(on="-", values=[NAME, EXECUTION_ID]),
        production_variants=[variant],
        kms_key=INFRASTRUCTURE["kms_key_arn"],
        tags=TAG_LIST,
    )
    config = EndpointConfigStep(name="CreateEndpointConfig", step_args=config_arguments)
    endpoint_arguments = session.create_endpoint(
        endpoint_name=Join(on="-", values=[NAME, EXECUTION_ID]),
        config_name=config.properties.EndpointConfigName,
        tags=TAG_LIST,
    )
    return config, EndpointStep(name="CreateEndpoint", step_args=endpoint_arguments)


def lambda_step(name: str, inputs: dict[str, Any], *outputs: str, **options: Any) -> LambdaStep:
    """Return a step that calls the function of its name."""
    purpose = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    text, number = LambdaOutputTypeEnum.String, LambdaOutputTypeEnum.Float
    return LambdaStep(
        name=name,
        lambda_func=Lambda(function_arn=INFRASTRUCTURE[f"{purpose}_function_arn"]),
        inputs=inputs,
        outputs=[LambdaOutput(each, number if each.endswith("_ms") else text) for each in outputs],
        **options,
    )


def lambda_steps(
    train: TrainingStep, endpoint: EndpointStep, seal: LambdaStep
) -> tuple[LambdaStep, LambdaStep]:
    inputs = {
        "endpoint_name": endpoint.properties.EndpointName,
        "training_job_name": train.properties.TrainingJobName,
        "content_sha256": seal.properties.Outputs["content_sha256"],
        "max_latency_ms": 5000,
    }
    outputs = ("status", "answers", "slowest_ms", "content_sha256")
    smoke_test = lambda_step("SmokeTest", inputs, *outputs)
    inputs = {"pipeline_execution_arn": ExecutionVariables.PIPELINE_EXECUTION_ARN}
    return smoke_test, lambda_step("Teardown", inputs, "status", "deleted", depends_on=[smoke_test])


def first_steps(session: PipelineSession) -> tuple[PropertyFile, list[Any]]:
    """Return the evaluation's report, and the steps from training to the model."""
    train = train_step(session)
    report = PropertyFile(name="EvaluationReport", output_name="evaluation", path="evaluation.json")
    evaluate = evaluate_step(session, train.properties.ModelArtifacts.S3ModelArtifacts, report)
    seal = seal_step(train, report)
    register = register_step(session, train, seal)
    return report, [train, evaluate, seal, register, model_step(session, seal, register)]


def definition_of(session: PipelineSession, *steps: Any) -> dict[str, Any]:
    pipeline = Pipeline(name=NAME, parameters=PARAMETERS, steps=[*steps], sagemaker_session=session)
    parsed: dict[str, Any] = json.loads(pipeline.definition())
    return parsed


def definition() -> dict[str, Any]:
    session = pipeline_session()
    report, (train, evaluate, seal, register, model) = first_steps(session)
    config, endpoint = endpoint_steps(session, model)
    accuracy, rmse = (
        JsonGet(step_name="Evaluate", property_file=report, json_path=f"metrics.{name}.value")
        for name in ("accuracy", "rmse")
    )
    values = ["The model does not pass its gates: ", "accuracy is ", accuracy]
    values += [" and must be at least ", MIN_ACCURACY, "; ", "rmse is ", rmse]
    message = Join(on="", values=[*values, " and must be at most ", MAX_RMSE])
    gate = ConditionStep(
        name="Gate",
        conditions=[
            ConditionGreaterThanOrEqualTo(left=accuracy, right=MIN_ACCURACY),
            ConditionLessThanOrEqualTo(left=rmse, right=MAX_RMSE),
        ],
        if_steps=[seal, register, model, config, endpoint, *lambda_steps(train, endpoint, seal)],
        else_steps=[FailStep(name="GateFailed", error_message=message)],
    )
    return definition_of(session, train, evaluate, gate)


def other_steps() -> list[dict[str, Any]]:
    """Return the steps of packages/shoal/tests/pipelines/other_steps.py, without what they wait
    for."""
    session = pipeline_session()
    ask = CallbackStep(
        name="Ask",
        sqs_queue_url=f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/questions",
        inputs={"execution_id": EXECUTION_ID},
        outputs=[CallbackOutput("answer", CallbackOutputTypeEnum.String)],
    )
    tuner = HyperparameterTuner(
        model_trainer(session),
        objective_metric_name="test:loss",
        objective_type="Minimize",
        strategy="Random",
        hyperparameter_ranges={"learning-rate": ContinuousParameter(0.001, 0.1)},
        max_jobs=4,
        max_parallel_jobs=2,
        metric_definitions=[{"Name": name, "Regex": regex} for name, regex in METRICS.items()],
        tags=TAG_LIST,
    )
    tune = TuningStep(
        name="Tune", step_args=tuner.tune(inputs=channels()), retry_policies=[CREATE_CALL, JOB]
    )
    _, first = first_steps(session)
    transformer = Transformer(
        model_name=first[-1].properties.ModelName,
        instance_count=1,
        instance_type="ml.m5.xlarge",
        volume_kms_key=INFRASTRUCTURE["kms_key_arn"],
        output_path=Join(on="/", values=[f"{ARTIFACTS}/transform", EXECUTION_ID]),
        output_kms_key=INFRASTRUCTURE["kms_key_arn"],
        tags=TAG_LIST,
        sagemaker_session=session,
    )
    score = TransformStep(
        name="Score",
        step_args=transformer.transform(data=TEST_DATA_URI, content_type="text/csv"),
        retry_policies=[CREATE_CALL, JOB],
    )
    return list(definition_of(session, *first, ask, tune, score)["Steps"][-3:])


def main() -> None:
    packages = ["sagemaker", "sagemaker-mlops", "sagemaker-core", "sagemaker-train"]
    packages += ["boto3", "botocore"]
    golden = {
        "made_by": "packages/shoal/tests/goldens/make_sdk_v3.py",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "definition": definition(),
        "other_steps": other_steps(),
    }
    (HERE / "sdk_v3.json").write_text(json.dumps(golden, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
