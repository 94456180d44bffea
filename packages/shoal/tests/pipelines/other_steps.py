"""A user's function: the standard pipeline with a step of each type that it has none of."""

from dataclasses import replace

from pipelines.training import training_pipeline as standard
from shoal.launch import Launch
from shoal.pipelines.expressions import EXECUTION_ID, Property
from shoal.pipelines.graph import Infrastructure, Pipeline
from shoal.pipelines.requests import TRANSFORM_FOLDER, artifacts
from shoal.pipelines.steps import CREATE_CALL, JOB, Callback, Condition, Step, Transform, Tuning
from shoal.settings.names import Names
from shoal.settings.settings import Environment


def build(environment: Environment, infrastructure: Infrastructure, launch: Launch) -> Pipeline:
    """Return it: asked first, tuned, and scoring a dataset instead of an endpoint."""
    pipeline = standard(environment, infrastructure, launch)
    train, evaluate, gate = pipeline.steps
    assert isinstance(gate, Condition)
    seal, register, create_model, *_, teardown = gate.if_true
    hosting = (
        create_model,
        score(pipeline, environment, infrastructure),
        replace(teardown, depends_on=("Score",)),
    )
    steps = (
        ask(environment),
        replace(tune(train), depends_on=("Ask",)),
        replace(train, depends_on=("Tune",)),
        evaluate,
        replace(gate, if_true=(seal, register, *hosting)),
    )
    return replace(pipeline, steps=steps)


def ask(environment: Environment) -> Callback:
    queue = f"https://sqs.{environment.region}.amazonaws.com/{environment.account}/questions"
    return Callback(
        "Ask",
        {"execution_id": EXECUTION_ID},
        sqs_queue_url=queue,
        outputs={"answer": "String"},
    )


def tune(train: Step) -> Tuning:
    arguments = dict(train.arguments)
    tags, hyperparameters = arguments.pop("Tags"), dict(arguments.pop("HyperParameters"))
    hyperparameters.pop("learning-rate", None)
    learning_rate = {"Name": "learning-rate", "MinValue": "0.001", "MaxValue": "0.1"}
    channels = [  # the input mode is the algorithm's; the SDK does not repeat it here
        {key: value for key, value in channel.items() if key != "InputMode"}
        for channel in arguments.pop("InputDataConfig")
    ]
    request = {
        "HyperParameterTuningJobConfig": {
            "Strategy": "Random",
            "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "test:loss"},
            "ResourceLimits": {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 2},
            "ParameterRanges": {
                "ContinuousParameterRanges": [{**learning_rate, "ScalingType": "Auto"}]
            },
            "TrainingJobEarlyStoppingType": "Off",
        },
        "TrainingJobDefinition": {
            **arguments,
            "InputDataConfig": channels,
            "StaticHyperParameters": hyperparameters,
        },
        "Tags": tags,
    }
    return Tuning("Tune", request, retries=(CREATE_CALL, JOB))


def score(
    pipeline: Pipeline, environment: Environment, infrastructure: Infrastructure
) -> Transform:
    request = {
        "ModelName": Property("CreateModel", "ModelName"),
        "TransformInput": {
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": pipeline.parameter("TestDataUri"),
                }
            },
            "ContentType": "text/csv",
        },
        "TransformOutput": {
            "S3OutputPath": artifacts(Names(environment), TRANSFORM_FOLDER),
            "KmsKeyId": infrastructure.kms_key_arn,
        },
        "TransformResources": {
            "InstanceType": "ml.m5.xlarge",
            "InstanceCount": 1,
            "VolumeKmsKeyId": infrastructure.kms_key_arn,
        },
        "Tags": pipeline.step("Train").arguments["Tags"],
    }
    return Transform("Score", request, retries=(CREATE_CALL, JOB))
