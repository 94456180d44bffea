"""Steps of types that Shoal's pipeline has none of are written and checked like the others."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shoal.launch import launch_of
from shoal.launch.errors import GraphError
from shoal.pipelines import shapes
from shoal.pipelines.expressions import Property
from shoal.pipelines.graph import Pipeline
from shoal.pipelines.limits import Limits, limits, queue_names
from shoal.pipelines.own_pipeline import definition_of
from shoal.pipelines.steps import Lambda
from shoal.settings.parsing.errors import ConfigError
from tests.pipelines.inputs import environment, golden, infrastructure
from tests.repository import ROOT

FUNCTION = "packages.shoal.tests.pipelines.other_steps:build"
other_steps = importlib.import_module(FUNCTION.partition(":")[0])  # the one that the check calls
Change = Callable[[dict[str, Any]], object]


def edited() -> Pipeline:
    settings = environment()
    pipeline: Pipeline = other_steps.build(settings, infrastructure(), launch_of(settings))
    return pipeline


def definition() -> dict[str, Any]:
    settings = environment().model_copy(update={"pipeline": FUNCTION})
    return definition_of(settings, infrastructure(), launch_of(settings), ROOT)


def line_about(monkeypatch: pytest.MonkeyPatch, step: str, change: Change) -> str:
    """Return the one line of a user whose step has other arguments."""
    pipeline = edited()
    arguments = definition_arguments(pipeline, step)
    change(arguments)
    other = pipeline.replace(step, replace(pipeline.step(step), arguments=arguments))
    monkeypatch.setattr(other_steps, "build", lambda *_, **__: other)
    with pytest.raises(ConfigError) as caught:
        definition()
    (line,) = str(caught.value).splitlines()
    return line


def definition_arguments(pipeline: Pipeline, step: str) -> dict[str, Any]:
    written: dict[str, Any] = pipeline.step(step).arguments_json()
    return written


def test_the_steps_stand_where_they_were_inserted() -> None:
    written = definition()["Steps"]
    assert [step["Name"] for step in written] == ["Ask", "Tune", "Train", "Evaluate", "Gate"]
    branch = written[-1]["Arguments"]["IfSteps"]
    assert [step["Name"] for step in branch] == [
        *("Seal", "Register", "CreateModel", "Score", "Teardown")
    ]


def test_the_teardown_waits_for_the_transform() -> None:
    teardown = edited().step("Teardown")
    assert [each.step for each in teardown.dependencies()] == ["CreateModel", "Score"]


def test_a_callback_is_written_as_the_sdk_writes_it() -> None:
    assert definition()["Steps"][0] == {
        "Name": "Ask",
        "Type": "Callback",
        "Arguments": {"execution_id": {"Get": "Execution.PipelineExecutionId"}},
        "SqsQueueUrl": "https://sqs.us-east-1.amazonaws.com/111122223333/questions",
        "OutputParameters": [{"OutputName": "answer", "OutputType": "String"}],
    }


def test_an_answer_that_nobody_gives_is_refused() -> None:
    reader = Lambda("Read", {"why": Property("Ask", "OutputParameters['why']")}, function_arn="arn")
    with pytest.raises(GraphError, match="step Ask has no output why; it has answer"):
        edited().insert_after("Ask", reader).to_dict()


def test_limits_and_queues_of_the_new_types_are_known_to_the_role() -> None:
    document = definition()
    assert limits(document, "Transform") == Limits(
        ("ml.m5.xlarge",), encrypts_output=True, encrypts_volumes=True
    )
    assert limits(document, "Tuning") == limits(document, "Training")
    assert queue_names(document) == ["questions"]


@pytest.mark.parametrize(
    ("step", "change", "expected"),
    [
        (
            "Score",
            lambda a: a.update(ModelName="mine"),
            "Score.ModelName: must be the ModelName of a Model step, as Property(<step>,"
            " 'ModelName'); there are CreateModel",
        ),
        (
            "Score",
            lambda a: a["TransformOutput"].pop("KmsKeyId"),
            "Score.TransformOutput.KmsKeyId: must be infrastructure.kms_key_arn",
        ),
        (
            "Score",
            lambda a: a["TransformOutput"].update(S3OutputPath="s3://elsewhere/x"),
            "Score.TransformOutput.S3OutputPath: 's3://elsewhere/x' must start with"
            " s3://shoal-mnist-golden-artifacts-111122223333-us-east-1/transform/",
        ),
        (
            "Score",
            lambda a: a["TransformInput"]["DataSource"]["S3DataSource"].update(S3Uri="s3://b/x"),
            "Score.TransformInput.DataSource.S3DataSource.S3Uri: 's3://b/x' must start with",
        ),
        (
            "Score",
            lambda a: a["TransformResources"].update(InstanceType="ml.p4d.24xlage"),
            "Score.TransformResources.InstanceType: 'ml.p4d.24xlage' is not one of",
        ),
        (
            "Tune",
            lambda a: a["TrainingJobDefinition"].pop("VpcConfig"),
            "Tune.TrainingJobDefinition.VpcConfig: is missing",
        ),
        (
            "Tune",
            lambda a: a["TrainingJobDefinition"].update(StoppingCondition={}),
            "Tune.TrainingJobDefinition.StoppingCondition.MaxRuntimeInSeconds: must be a number",
        ),
        (
            "Tune",
            lambda a: a["TrainingJobDefinition"].update(RoleArn="arn:aws:iam::111122223333:role/r"),
            "Tune.TrainingJobDefinition.RoleArn: the pipeline may hand over only the roles",
        ),
        (
            "Tune",
            lambda a: a.update(HyperParameterTuningJobName="x"),
            "Tune.HyperParameterTuningJobName: the pipeline makes up this name itself",
        ),
        (
            "Ask",
            lambda a: a.update(whom=["Ada"]),
            "Ask.whom: inputs of a Callback step are text, numbers, true or false, not list",
        ),
    ],
)
def test_what_would_fail_later_is_one_line(
    monkeypatch: pytest.MonkeyPatch, step: str, change: Change, expected: str
) -> None:
    line = line_about(monkeypatch, step, change)
    assert line.startswith(
        f'environments/golden.yaml: pipeline = "{FUNCTION}": in the definition, {expected}'
    )


@pytest.mark.parametrize(
    "url",
    [
        "questions",
        "https://sqs.eu-west-1.amazonaws.com/111122223333/questions",
        "https://sqs.us-east-1.amazonaws.com/444455556666/questions",
        "https://sqs.us-east-1.amazonaws.com/111122223333/questions.fifo",
    ],
)
def test_a_queue_that_the_pipelines_role_could_not_send_to_is_refused(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    ask = replace(other_steps.ask(environment()), sqs_queue_url=url)
    monkeypatch.setattr(other_steps, "ask", lambda _: ask)
    with pytest.raises(ConfigError, match="must be the URL of a standard queue in the env"):
        definition()


@pytest.mark.parametrize("name", ["Ask", "Tune", "Score"])
def test_each_step_equals_the_one_that_sdk_v3_writes(name: str) -> None:
    theirs = {step["Name"]: step for step in golden("sdk_v3")["other_steps"]}
    ours = edited().step(name)
    assert replace(ours, depends_on=()).to_json() == theirs[name]


def test_arguments_match_botocores_request_shapes() -> None:
    assert list(shapes.mistakes_in(definition())) == []
