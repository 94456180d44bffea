"""SageMaker's SDK v3 with its defaults: each case returns what came out of its jobs."""

from __future__ import annotations

import json
from typing import Any

import boto3
from cases import BUCKET, ROLE, SOURCE, files, run, text
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.processing import ScriptProcessor
from sagemaker.core.resources import TrainingJob
from sagemaker.core.shapes import (
    ProcessingInput,
    ProcessingOutput,
    ProcessingS3Input,
    ProcessingS3Output,
)
from sagemaker.core.training.configs import Compute, InputData, SourceCode
from sagemaker.core.workflow.parameters import ParameterInteger
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.steps import TrainingStep
from sagemaker.serve.model_builder import ModelBuilder
from sagemaker.train.distributed import MPI, Torchrun
from sagemaker.train.model_trainer import ModelTrainer

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TRAINING = f"{REGISTRY}/pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker"
INFERENCE = f"{REGISTRY}/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"


def session(kind: type = Session) -> Any:
    return kind(default_bucket=BUCKET)


def trainer(job: str, script: str = "train.py", hosts: int = 1, **options: Any) -> ModelTrainer:
    """A trainer; what the caller does not say is left to the SDK."""
    return ModelTrainer(
        training_image=TRAINING,
        source_code=SourceCode(source_dir=SOURCE, entry_script=script),
        compute=Compute(instance_type="ml.m5.xlarge", instance_count=hosts),
        base_job_name=job,
        role=ROLE,
        **({"sagemaker_session": session()} | options),
    )


def finished(job: str) -> TrainingJob:
    return next(
        TrainingJob.get_all(name_contains=job, sort_by="CreationTime", sort_order="Descending")
    )


def model_files(job: str) -> dict[str, bytes]:
    """Return the files of the model.tar.gz of a finished job."""
    described = finished(job)
    described.refresh()
    return files(described.model_artifacts.s3_model_artifacts)


def ranks(job: str) -> str:
    return model_files(job)["ranks.txt"].decode()


def train_and_deploy() -> dict[str, Any]:
    boto3.client("s3").put_object(Bucket=BUCKET, Key="v3/numbers/one.csv", Body=b"1\n2\n")
    made = trainer("v3-fit", hyperparameters={"steps": 150, "channel": "train"})
    made.train(
        input_data_config=[InputData(channel_name="train", data_source=f"s3://{BUCKET}/v3/numbers")]
    )
    model = model_files("v3-fit")
    builder = ModelBuilder(
        s3_model_data_url=finished("v3-fit").model_artifacts.s3_model_artifacts,
        image_uri=INFERENCE,
        source_code=SourceCode(source_dir=SOURCE, entry_script="train.py"),
        role_arn=ROLE,
        instance_type="ml.m5.xlarge",
        sagemaker_session=session(),
    )
    builder.build(model_name="v3-line")
    endpoint = builder.deploy(endpoint_name="v3-line")
    answer = endpoint.invoke(body=json.dumps([[3.0]]), content_type="application/json")
    predicted = json.loads(answer.body.read())
    endpoint.delete()
    return {"files": sorted(model), "channel": model["channel.txt"].decode(), "answer": predicted}


def torchrun_one_host() -> str:
    trainer("v3-torchrun-1", "ranks.py", distributed=Torchrun(process_count_per_node=2)).train()
    return ranks("v3-torchrun-1")


def torchrun_two_hosts() -> str:
    trainer("v3-torchrun-2", "ranks.py", 2, distributed=Torchrun(process_count_per_node=1)).train()
    return ranks("v3-torchrun-2")


def mpi_one_host() -> str:
    trainer("v3-mpi-1", "mpi_ranks.py", distributed=MPI(process_count_per_node=2)).train()
    return ranks("v3-mpi-1")


def mpi_two_hosts() -> str:
    spread = ["--map-by", "ppr:1:node"]
    distributed = MPI(process_count_per_node=2, mpi_additional_options=spread)
    trainer("v3-mpi-2", "mpi_ranks.py", 2, distributed=distributed).train()
    return ranks("v3-mpi-2")


def failing_script() -> str:
    try:
        trainer("v3-failing", "fail.py").train()
    except Exception as error:  # noqa: BLE001 (which of its types it is differs between versions)
        return str(error)
    return ""


def processor() -> str:
    boto3.client("s3").put_object(Bucket=BUCKET, Key="v3/lines/a.csv", Body=b"1\n2\n3\n")
    made = ScriptProcessor(
        image_uri=TRAINING,
        command=["python3"],
        role=ROLE,
        instance_type="ml.m5.xlarge",
        instance_count=1,
        sagemaker_session=session(),
    )
    uri = f"s3://{BUCKET}/v3/report"
    source = ProcessingS3Input(
        s3_uri=f"s3://{BUCKET}/v3/lines",
        local_path="/opt/ml/processing/input",
        s3_data_type="S3Prefix",
        s3_input_mode="File",
    )
    target = ProcessingS3Output(
        s3_uri=uri, local_path="/opt/ml/processing/output", s3_upload_mode="EndOfJob"
    )
    made.run(
        code=f"{SOURCE}/process.py",
        inputs=[ProcessingInput(input_name="lines", s3_input=source)],
        outputs=[ProcessingOutput(output_name="report", s3_output=target)],
    )
    return text(f"{uri}/lines.txt")


def pipeline() -> dict[str, Any]:
    session_, steps = session(PipelineSession), ParameterInteger(name="Steps", default_value=100)
    made = trainer(
        "v3-pipeline", hyperparameters={"steps": steps.to_string()}, sagemaker_session=session_
    )
    step = TrainingStep(name="Train", step_args=made.train())
    pipeline_ = Pipeline(
        name="v3-cases", parameters=[steps], steps=[step], sagemaker_session=session_
    )
    pipeline_.upsert(role_arn=ROLE)
    execution = pipeline_.start(parameters={"Steps": 7})
    execution.wait(delay=2)
    (state,) = execution.list_steps()
    name = state["Metadata"]["TrainingJob"]["Arn"].rpartition("/")[2]
    job = boto3.client("sagemaker").describe_training_job(TrainingJobName=name)
    pipeline_.delete()
    return {"status": state["StepStatus"], "steps": job["HyperParameters"]["steps"]}


if __name__ == "__main__":
    spread = [torchrun_one_host, torchrun_two_hosts, mpi_one_host, mpi_two_hosts]
    run([train_and_deploy, *spread, failing_script, processor, pipeline])
