"""Builds our pipeline with SageMaker's Python SDK v3 from the same inputs, and writes its
definition to sdk_v3.json; sdk_v3.yaml has what of the arguments is plain.

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
import yaml  # noqa: E402
from sagemaker.core import shapes  # noqa: E402
from sagemaker.core import workflow as core  # noqa: E402
from sagemaker.core.lambda_helper import Lambda  # noqa: E402
from sagemaker.core.model_registry import create_model_package_from_containers  # noqa: E402
from sagemaker.core.network import NetworkConfig  # noqa: E402
from sagemaker.core.parameter import ContinuousParameter  # noqa: E402
from sagemaker.core.processing import Processor  # noqa: E402
from sagemaker.core.training import configs  # noqa: E402
from sagemaker.core.transformer import Transformer  # noqa: E402
from sagemaker.core.workflow.pipeline_context import PipelineSession  # noqa: E402
from sagemaker.mlops import workflow  # noqa: E402
from sagemaker.mlops.workflow.callback_step import CallbackOutputTypeEnum  # noqa: E402
from sagemaker.mlops.workflow.lambda_step import LambdaOutputTypeEnum  # noqa: E402
from sagemaker.train.model_trainer import ModelTrainer  # noqa: E402
from sagemaker.train.tuner import HyperparameterTuner  # noqa: E402

HERE = Path(__file__).parent
INFRASTRUCTURE: dict[str, Any] = json.loads((HERE / "infrastructure.json").read_text("utf-8"))
PLAIN: dict[str, Any] = yaml.safe_load((HERE / "sdk_v3.yaml").read_text("utf-8"))
DATA = f"s3://{NAME}-data-{ACCOUNT}-{REGION}/datasets/mnist"
ARTIFACTS = f"s3://{NAME}-artifacts-{ACCOUNT}-{REGION}"
EXECUTION_ID = core.ExecutionVariables.PIPELINE_EXECUTION_ID
TAGS = {
    "shoal:pipeline": NAME,
    "shoal:execution": EXECUTION_ID,
    "shoal:environment": "golden",
    "shoal:ttl-minutes": "60",
}
TAG_LIST = [{"Key": key, "Value": value} for key, value in TAGS.items()]
KEY = INFRASTRUCTURE["kms_key_arn"]
HOSTING = [INFRASTRUCTURE[f"hosting_{each}_ids"] for each in ("subnet", "security_group")]
VPC = {
    "subnets": INFRASTRUCTURE["training_subnet_ids"],
    "security_group_ids": INFRASTRUCTURE["training_security_group_ids"],
}

CALLS, JOBS = workflow.StepExceptionTypeEnum, workflow.SageMakerJobExceptionTypeEnum
CREATE_CALL = workflow.StepRetryPolicy(
    exception_types=[CALLS.SERVICE_FAULT, CALLS.THROTTLING], **PLAIN["create_call"]
)
RETRIES = [
    CREATE_CALL,
    workflow.SageMakerJobStepRetryPolicy(
        exception_types=[JOBS.CAPACITY_ERROR],
        failure_reason_types=[JOBS.INTERNAL_ERROR],
        **PLAIN["job"],
    ),
]

TRAIN_DATA_URI = core.ParameterString("TrainDataUri", default_value=f"{DATA}/train/")
TEST_DATA_URI = core.ParameterString("TestDataUri", default_value=f"{DATA}/test/")
CODE_URI = core.ParameterString("CodeUri", default_value=INFRASTRUCTURE["code_uri"])
INSTANCE_TYPE = core.ParameterString("InstanceType", default_value="ml.p4d.24xlarge")
INSTANCE_COUNT = core.ParameterInteger("InstanceCount", default_value=2)
MIN_ACCURACY = core.ParameterFloat("MinAccuracy", default_value=0.98)
MAX_RMSE = core.ParameterFloat("MaxRmse", default_value=60.0)
EPOCHS = core.ParameterInteger("Epochs", default_value=2)
BATCH_SIZE = core.ParameterInteger("BatchSize", default_value=256)
LEARNING_RATE = core.ParameterFloat("LearningRate", default_value=0.003)
AUGMENT = core.ParameterString("Augment", default_value="true", enum_values=["true", "false"])
PARAMETERS = [TRAIN_DATA_URI, TEST_DATA_URI, CODE_URI, INSTANCE_TYPE, INSTANCE_COUNT]
PARAMETERS += [MIN_ACCURACY, MAX_RMSE, EPOCHS, BATCH_SIZE, LEARNING_RATE, AUGMENT]

SESSION = PipelineSession(
    boto_session=boto3.Session("golden", "golden", region_name=REGION),
    default_bucket="golden",
    sagemaker_config={
        "SchemaVersion": "1.0",
        "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}},
    },
)


def output(folder: str, *names: str) -> core.Join:
    """Return a place of the execution's own in the artifact bucket."""
    return core.Join(on="/", values=[f"{ARTIFACTS}/{folder}", EXECUTION_ID, *names])


def model_trainer() -> ModelTrainer:
    trainer = ModelTrainer(
        sagemaker_session=SESSION,
        role=INFRASTRUCTURE["training_role_arn"],
        compute=configs.Compute(
            instance_type=INSTANCE_TYPE, instance_count=INSTANCE_COUNT, **PLAIN["compute"]
        ),
        networking=configs.Networking(**VPC),
        stopping_condition=configs.StoppingCondition(**PLAIN["stopping_condition"]),
        output_data_config=configs.OutputDataConfig(
            s3_output_path=output("training"),
            kms_key_id=KEY,
            compression_type="GZIP",
        ),
        checkpoint_config=configs.CheckpointConfig(
            s3_uri=output("checkpoints"),
            local_path="/opt/ml/checkpoints",
        ),
        hyperparameters=PLAIN["hyperparameters"]
        | {
            "epochs": EPOCHS.to_string(),
            "batch-size": BATCH_SIZE.to_string(),
            "learning-rate": LEARNING_RATE.to_string(),
            "augment": AUGMENT,
            "sagemaker_submit_directory": CODE_URI,
            "sagemaker_instance_type": INSTANCE_TYPE,
        },
        tags=[configs.Tag(key=key, value=value) for key, value in TAGS.items()],
        **PLAIN["trainer"],
    )
    trainer._metric_definitions = [
        configs.MetricDefinition(name=name, regex=regex) for name, regex in PLAIN["metrics"].items()
    ]
    return trainer


def channels() -> list[configs.InputData]:
    uris = {"train": TRAIN_DATA_URI, "test": TEST_DATA_URI}
    return [configs.InputData(channel_name=name, data_source=uri) for name, uri in uris.items()]


def processing_input(name: str, uri: Any) -> shapes.ProcessingInput:
    path = f"/opt/ml/processing/input/{name}"
    source = shapes.ProcessingS3Input(s3_uri=uri, local_path=path, **PLAIN["input"])
    return shapes.ProcessingInput(input_name=name, s3_input=source)


def evaluate_step(model_data: Any, report: core.PropertyFile) -> workflow.ProcessingStep:
    processor = Processor(
        role=INFRASTRUCTURE["evaluation_role_arn"],
        volume_kms_key=KEY,
        output_kms_key=KEY,
        sagemaker_session=SESSION,
        network_config=NetworkConfig(**VPC, enable_network_isolation=False),
        **PLAIN["processor"],
        tags=TAG_LIST,
    )
    target = shapes.ProcessingS3Output(
        s3_uri=output("evaluation"),
        local_path=PLAIN["evaluation"][-1],
        s3_upload_mode="EndOfJob",
    )
    uris = {"code": CODE_URI, "model": model_data, "test": TEST_DATA_URI}
    arguments = processor.run(
        inputs=[processing_input(name, uri) for name, uri in uris.items()],
        outputs=[shapes.ProcessingOutput(output_name="evaluation", s3_output=target)],
        arguments=PLAIN["evaluation"],
    )
    return workflow.ProcessingStep(
        name="Evaluate", step_args=arguments, property_files=[report], retry_policies=RETRIES
    )


def container(model_data: Any) -> dict[str, Any]:
    return {**PLAIN["container"], "ModelDataUrl": model_data}


class _HasSession:
    """What ModelStep needs of a model: the SDK has no public producer without uploading code."""

    sagemaker_session = SESSION


def seal_step(train: workflow.TrainingStep, report: core.PropertyFile) -> workflow.LambdaStep:
    inputs = {
        "execution_id": EXECUTION_ID,
        "model_data_url": train.properties.ModelArtifacts.S3ModelArtifacts,
    } | {
        name: core.JsonGet(step_name="Evaluate", property_file=report, json_path=f"model.{name}")
        for name in ("archive_sha256", "archive_composite_sha256", "content_sha256")
    }
    outputs = ("status", "model_data_url", "archive_sha256", "content_sha256")
    return lambda_step("Seal", inputs, *outputs)


def register_step(train: workflow.TrainingStep, seal: workflow.LambdaStep) -> workflow.ModelStep:
    SESSION.init_model_step_arguments(_HasSession())
    report = output("evaluation", "evaluation.json")
    statistics = {"ContentType": "application/json", "S3Uri": report}
    gates = ["accuracy at least ", MIN_ACCURACY, " and ", "rmse at most ", MAX_RMSE]
    arguments = create_model_package_from_containers(
        SESSION,
        containers=[container(seal.properties.Outputs["model_data_url"])],
        model_metrics={"ModelQuality": {"Statistics": statistics}},
        customer_metadata_properties={
            "training_job_name": train.properties.TrainingJobName,
            "code_uri": CODE_URI,
            "execution_id": EXECUTION_ID,
            "archive_sha256": seal.properties.Outputs["archive_sha256"],
            "content_sha256": seal.properties.Outputs["content_sha256"],
            "gates": core.Join(on="", values=gates),
        },
        **PLAIN["package"],
    )
    SESSION.context = None
    return workflow.ModelStep(name="Register", step_args=arguments, retry_policies=[CREATE_CALL])


def model_step(seal: workflow.LambdaStep, register: workflow.ModelStep) -> workflow.ModelStep:
    SESSION.init_model_step_arguments(_HasSession())
    request = {
        "ExecutionRoleArn": INFRASTRUCTURE["endpoint_role_arn"],
        "PrimaryContainer": container(seal.properties.Outputs["model_data_url"]),
        "VpcConfig": dict(zip(("Subnets", "SecurityGroupIds"), HOSTING, strict=True)),
        "Tags": TAG_LIST,
    }
    arguments = SESSION._intercept_create_request(request, None, "create_model")
    SESSION.context = None
    return workflow.ModelStep(
        name="CreateModel", step_args=arguments, depends_on=[register], retry_policies=[CREATE_CALL]
    )


def endpoint_steps(
    model: workflow.ModelStep,
) -> tuple[workflow.EndpointConfigStep, workflow.EndpointStep]:
    variant = PLAIN["variant"] | {"ModelName": model.properties.ModelName}
    config_arguments = SESSION.create_endpoint_config(
        name=core.Join(on="-", values=[NAME, EXECUTION_ID]),
        production_variants=[variant],
        kms_key=KEY,
        tags=TAG_LIST,
    )
    config = workflow.EndpointConfigStep(name="CreateEndpointConfig", step_args=config_arguments)
    endpoint_arguments = SESSION.create_endpoint(
        endpoint_name=core.Join(on="-", values=[NAME, EXECUTION_ID]),
        config_name=config.properties.EndpointConfigName,
        tags=TAG_LIST,
    )
    return config, workflow.EndpointStep(name="CreateEndpoint", step_args=endpoint_arguments)


def lambda_step(
    name: str, inputs: dict[str, Any], *outputs: str, **options: Any
) -> workflow.LambdaStep:
    """Return a step that calls the function of its name."""
    purpose = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    text, kinds = LambdaOutputTypeEnum.String, {"slowest_ms": LambdaOutputTypeEnum.Float}
    return workflow.LambdaStep(
        name=name,
        lambda_func=Lambda(function_arn=INFRASTRUCTURE[f"{purpose}_function_arn"]),
        inputs=inputs,
        outputs=[workflow.LambdaOutput(each, kinds.get(each, text)) for each in outputs],
        **options,
    )


def lambda_steps(
    train: workflow.TrainingStep, endpoint: workflow.EndpointStep, seal: workflow.LambdaStep
) -> tuple[workflow.LambdaStep, workflow.LambdaStep]:
    inputs = {
        "endpoint_name": endpoint.properties.EndpointName,
        "training_job_name": train.properties.TrainingJobName,
        "content_sha256": seal.properties.Outputs["content_sha256"],
        "max_latency_ms": 5000,
    }
    outputs = ("status", "answers", "slowest_ms", "content_sha256")
    smoke_test = lambda_step("SmokeTest", inputs, *outputs)
    inputs = {"pipeline_execution_arn": core.ExecutionVariables.PIPELINE_EXECUTION_ARN}
    return smoke_test, lambda_step("Teardown", inputs, "status", "deleted", depends_on=[smoke_test])


def first_steps() -> tuple[core.PropertyFile, list[Any]]:
    """Return the evaluation's report, and the steps from training to the model."""
    train = workflow.TrainingStep(
        name="Train",
        step_args=model_trainer().train(input_data_config=channels()),
        retry_policies=RETRIES,
    )
    report = core.PropertyFile(
        name="EvaluationReport", output_name="evaluation", path="evaluation.json"
    )
    evaluate = evaluate_step(train.properties.ModelArtifacts.S3ModelArtifacts, report)
    seal = seal_step(train, report)
    register = register_step(train, seal)
    return report, [train, evaluate, seal, register, model_step(seal, register)]


def definition_of(*steps: Any) -> dict[str, Any]:
    pipeline = workflow.Pipeline(
        name=NAME, parameters=PARAMETERS, steps=[*steps], sagemaker_session=SESSION
    )
    return dict(json.loads(pipeline.definition()))


def definition() -> dict[str, Any]:
    report, (train, evaluate, seal, register, model) = first_steps()
    config, endpoint = endpoint_steps(model)
    accuracy, rmse = (
        core.JsonGet(step_name="Evaluate", property_file=report, json_path=f"metrics.{name}.value")
        for name in ("accuracy", "rmse")
    )
    values = ["The model does not pass its gates: ", "accuracy is ", accuracy]
    values += [" and must be at least ", MIN_ACCURACY, "; ", "rmse is ", rmse]
    message = core.Join(on="", values=[*values, " and must be at most ", MAX_RMSE])
    gate = workflow.ConditionStep(
        name="Gate",
        conditions=[
            core.ConditionGreaterThanOrEqualTo(left=accuracy, right=MIN_ACCURACY),
            core.ConditionLessThanOrEqualTo(left=rmse, right=MAX_RMSE),
        ],
        if_steps=[seal, register, model, config, endpoint, *lambda_steps(train, endpoint, seal)],
        else_steps=[workflow.FailStep(name="GateFailed", error_message=message)],
    )
    return definition_of(train, evaluate, gate)


def other_steps() -> list[dict[str, Any]]:
    """Return the steps of packages/shoal/tests/pipelines/other_steps.py, without what they wait
    for."""
    ask = workflow.CallbackStep(
        name="Ask",
        sqs_queue_url=f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/questions",
        inputs={"execution_id": EXECUTION_ID},
        outputs=[workflow.CallbackOutput("answer", CallbackOutputTypeEnum.String)],
    )
    tuner = HyperparameterTuner(
        model_trainer(),
        hyperparameter_ranges={"learning-rate": ContinuousParameter(0.001, 0.1)},
        metric_definitions=[
            {"Name": name, "Regex": regex} for name, regex in PLAIN["metrics"].items()
        ],
        tags=TAG_LIST,
        **PLAIN["tuner"],
    )
    tuned = tuner.tune(inputs=channels())
    tune = workflow.TuningStep(name="Tune", step_args=tuned, retry_policies=RETRIES)
    _, first = first_steps()
    transformer = Transformer(
        model_name=first[-1].properties.ModelName,
        volume_kms_key=KEY,
        output_path=output("transform"),
        output_kms_key=KEY,
        tags=TAG_LIST,
        sagemaker_session=SESSION,
        **PLAIN["transformer"],
    )
    scored = transformer.transform(data=TEST_DATA_URI, content_type="text/csv")
    score = workflow.TransformStep(name="Score", step_args=scored, retry_policies=RETRIES)
    return list(definition_of(*first, ask, tune, score)["Steps"][-3:])


def main() -> None:
    packages = ["sagemaker", "sagemaker-mlops", "sagemaker-core", "sagemaker-train"]
    versions = {name: version(name) for name in [*packages, "boto3", "botocore"]}
    golden = {
        "made_by": "packages/shoal/tests/goldens/make_sdk_v3.py",
        "versions": {"python": platform.python_version()} | versions,
        "definition": definition(),
        "other_steps": other_steps(),
    }
    (HERE / "sdk_v3.json").write_text(json.dumps(golden, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
