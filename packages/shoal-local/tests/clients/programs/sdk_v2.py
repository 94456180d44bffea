"""SageMaker's SDK v2 with its defaults: each case returns what came out of its jobs."""

from __future__ import annotations

from typing import Any

import boto3
import numpy as np
from cases import BUCKET, ROLE, SOURCE, files, run, text
from sagemaker import Session
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.exceptions import UnexpectedStatusException
from sagemaker.inputs import TrainingInput
from sagemaker.processing import (
    FrameworkProcessor,
    ProcessingInput,
    ProcessingOutput,
    ScriptProcessor,
)
from sagemaker.pytorch import PyTorch
from sagemaker.sklearn import SKLearn, SKLearnProcessor
from sagemaker.tensorflow import TensorFlow
from sagemaker.tuner import HyperparameterTuner, IntegerParameter
from sagemaker.workflow.parameters import ParameterInteger
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.steps import ProcessingStep, TrainingStep

ONE_HOST: dict[str, Any] = {"instance_type": "ml.m5.xlarge", "instance_count": 1}
INSTANCE: dict[str, Any] = {"instance_type": "ml.m5.xlarge", "initial_instance_count": 1}
LOSS = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]


def session(kind: type = Session) -> Any:
    return kind(default_bucket=BUCKET)


def pytorch(job: str, script: str = "train.py", **options: Any) -> PyTorch:
    """An estimator; what the caller does not say is left to the SDK."""
    settings = {"framework_version": "2.3", **ONE_HOST, **options}
    return PyTorch(
        entry_point=script,
        source_dir=SOURCE,
        role=ROLE,
        py_version="py311",
        base_job_name=job,
        **({"sagemaker_session": session()} | settings),
    )


def fit_deploy_and_attach() -> dict[str, Any]:
    boto3.client("s3").put_object(Bucket=BUCKET, Key="v2/numbers/one.csv", Body=b"1\n2\n")
    estimator = pytorch(
        "fit", metric_definitions=LOSS, hyperparameters={"steps": 20, "channel": "train"}
    )
    estimator.fit({"train": TrainingInput(f"s3://{BUCKET}/v2/numbers")})
    model = files(estimator.model_data)
    frame = TrainingJobAnalytics(estimator.latest_training_job.name, ["loss"]).dataframe()
    attached = PyTorch.attach(estimator.latest_training_job.name, sagemaker_session=session())
    predictor = attached.deploy(**INSTANCE)
    answer = predictor.predict(np.array([[3.0]], dtype="float32"))
    name = predictor.endpoint_name
    predictor.delete_model()
    predictor.delete_endpoint()
    sagemaker = boto3.client("sagemaker")
    sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=name)
    left = sagemaker.list_endpoints(NameContains=name)["Endpoints"]
    return {
        "files": sorted(model),
        "channel": model["channel.txt"].decode(),
        "loss": frame["value"].tolist(),
        "hyperparameters": attached.hyperparameters(),
        "answer": np.asarray(answer).tolist(),
        "left": left,
    }


def two_hosts() -> str:
    estimator = pytorch(
        "two-hosts",
        "ranks.py",
        framework_version="2.3.0",
        instance_type="ml.g5.2xlarge",
        instance_count=2,
        distribution={"torch_distributed": {"enabled": True}},
    )
    estimator.fit()
    return files(estimator.model_data)["ranks.txt"].decode()


def failing_script() -> dict[str, str]:
    estimator = pytorch("failing", "fail.py")
    try:
        estimator.fit()
    except UnexpectedStatusException as error:
        return {"error": str(error), "status": str(error.actual_status)}
    return {}


def tensorflow() -> dict[str, Any]:
    estimator = TensorFlow(
        entry_point="train_tensorflow.py",
        source_dir=SOURCE,
        role=ROLE,
        framework_version="2.14",
        py_version="py310",
        **ONE_HOST,
        sagemaker_session=session(),
    )
    estimator.fit()
    predictor = estimator.deploy(**INSTANCE)
    answer = predictor.predict({"instances": [[3.0], [0.0]]})
    assert predictor.predict(np.array([[3.0], [0.0]])) == answer  # an array is wrapped
    predictor.delete_endpoint()
    return {"files": sorted(files(estimator.model_data)), "answer": answer}


def script_processor(estimator: PyTorch, session_: Any) -> ScriptProcessor:
    """A processor with the image of an estimator."""
    return ScriptProcessor(
        image_uri=estimator.training_image_uri(),
        command=["python3"],
        role=ROLE,
        sagemaker_session=session_,
        **ONE_HOST,
    )


def processors() -> dict[str, str]:
    boto3.client("s3").put_object(Bucket=BUCKET, Key="v2/lines/a.csv", Body=b"1\n2\n3\n")
    estimator = pytorch("image")
    inputs = [ProcessingInput(f"s3://{BUCKET}/v2/lines", "/opt/ml/processing/input")]
    outputs = [ProcessingOutput("/opt/ml/processing/output", output_name="report")]
    script = script_processor(estimator, session())
    script.run(f"{SOURCE}/process.py", inputs=inputs, outputs=outputs)
    options = {"py_version": "py311", "role": ROLE, "sagemaker_session": session(), **ONE_HOST}
    framework = FrameworkProcessor(PyTorch, "2.3", **options)
    framework.run("process.py", source_dir=SOURCE, inputs=inputs, outputs=outputs)
    return {
        kind: text(processor.latest_job.outputs[0].destination + "/lines.txt")
        for kind, processor in (("script", script), ("framework", framework))
    }


def scikit_learn() -> dict[str, Any]:
    """What a processor writes trains an estimator, whose model serves."""
    boto3.client("s3").put_object(Bucket=BUCKET, Key="v2/rows/a.csv", Body=b"0,0\n1,1\n2,2\n")
    where = {"role": ROLE, **ONE_HOST}
    processor = SKLearnProcessor("1.2-1", sagemaker_session=session(), **where)
    processor.run(
        f"{SOURCE}/double.py",
        inputs=[ProcessingInput(f"s3://{BUCKET}/v2/rows", "/opt/ml/processing/input")],
        outputs=[ProcessingOutput("/opt/ml/processing/output", output_name="rows")],
        arguments=["--times", "2"],
    )
    source = {"entry_point": "fit_line.py", "source_dir": SOURCE}
    versions = {"framework_version": "1.2-1", "sagemaker_session": session()}
    estimator = SKLearn(**source, **versions, **where)
    estimator.fit({"train": processor.latest_job.outputs[0].destination})
    predictor = estimator.deploy(**INSTANCE)
    answer = predictor.predict(np.array([[3.0], [5.0]]))
    predictor.delete_endpoint()
    return {
        "answer": np.asarray(answer).round(3).tolist(),
        "files": sorted(files(estimator.model_data)),
    }


def tuned() -> dict[str, Any]:
    tuner = HyperparameterTuner(
        pytorch("tuned"),
        "loss",
        {"steps": IntegerParameter(5, 50)},
        LOSS,
        strategy="Random",
        objective_type="Minimize",
        max_jobs=2,
        max_parallel_jobs=2,
    )
    tuner.fit()
    frame = tuner.analytics().dataframe()
    return {
        "best": tuner.best_training_job(),
        "best_of_table": frame.sort_values("FinalObjectiveValue")["TrainingJobName"].tolist()[0],
        "jobs": len(frame),
    }


def pipeline() -> dict[str, Any]:
    session_ = session(PipelineSession)
    steps = ParameterInteger("Steps", 100)
    estimator = pytorch("pipeline", sagemaker_session=session_, hyperparameters={"steps": steps})
    train = TrainingStep("Train", step_args=estimator.fit())
    processor = script_processor(estimator, session_)
    model = train.properties.ModelArtifacts.S3ModelArtifacts
    outputs = [ProcessingOutput("/opt/ml/processing/output", output_name="report")]
    arguments = processor.run(
        f"{SOURCE}/process.py",
        inputs=[ProcessingInput(model, "/opt/ml/processing/input")],
        outputs=outputs,
    )
    process = ProcessingStep("Process", step_args=arguments)
    made = Pipeline(
        "v2-cases", parameters=[steps], steps=[train, process], sagemaker_session=session_
    )
    made.upsert(role_arn=ROLE)
    execution = made.start(parameters={"Steps": 7})
    execution.wait(delay=2)
    states = {each["StepName"]: each["StepStatus"] for each in execution.list_steps()}
    metadata = [each["Metadata"] for each in execution.list_steps()]
    arn = next(each["TrainingJob"]["Arn"] for each in metadata if "TrainingJob" in each)
    name = arn.rpartition("/")[2]
    job = boto3.client("sagemaker").describe_training_job(TrainingJobName=name)
    made.delete()
    return {"states": states, "steps": job["HyperParameters"]["steps"]}


if __name__ == "__main__":
    first = [fit_deploy_and_attach, tensorflow, scikit_learn, tuned, pipeline]
    run([*first, processors, two_hosts, failing_script])
