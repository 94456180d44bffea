"""Steps of types that Shoal's pipeline has none of are written and checked like the others."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest

from shoal.launch import launch_of
from shoal.launch.errors import GraphError
from shoal.pipelines.expressions import Property
from shoal.pipelines.graph import Pipeline
from shoal.pipelines.limits import Limits, limits, queue_names
from shoal.pipelines.own_pipeline import definition_of
from shoal.pipelines.steps import Lambda
from shoal.pipelines.validation import shapes
from shoal.settings.parsing.errors import ConfigError
from tests.pipelines.inputs import environment, golden, infrastructure, set_at
from tests.repository import CHECKOUT
from tests.tables import table

FUNCTION = "packages.shoal.tests.pipelines.other_steps:build"
other_steps = importlib.import_module(FUNCTION.partition(":")[0])  # the one that the check calls


def edited() -> Pipeline:
    settings = environment()
    pipeline: Pipeline = other_steps.build(settings, infrastructure(), launch_of(settings))
    return pipeline


def definition() -> dict[str, Any]:
    settings = environment().model_copy(update={"pipeline": FUNCTION})
    return definition_of(settings, infrastructure(), launch_of(settings), CHECKOUT)


def line_about(monkeypatch: pytest.MonkeyPatch, path: str, value: Any) -> str:
    """Return the one line of a user whose step has other arguments."""
    document = edited().to_dict()
    set_at(document, path, value)
    monkeypatch.setattr(other_steps, "build", lambda *_, **__: document)
    with pytest.raises(ConfigError) as caught:
        definition()
    (line,) = str(caught.value).splitlines()
    return line


def test_an_answer_that_nobody_gives_is_refused() -> None:
    reader = Lambda("Read", {"why": Property("Ask", "OutputParameters['why']")}, function_arn="arn")
    pipeline = edited()
    with pytest.raises(GraphError, match="step Ask has no output why; it has answer"):
        replace(pipeline, steps=(*pipeline.steps, reader)).to_dict()


def test_limits_and_queues_of_the_new_types_are_known_to_the_role() -> None:
    document = definition()
    assert limits(document, "Transform") == Limits(
        ("ml.m5.xlarge",), encrypts_output=True, encrypts_volumes=True
    )
    assert limits(document, "Tuning") == limits(document, "Training")
    assert queue_names(document) == ["questions"]


@pytest.mark.parametrize("row", table(__file__, "other_steps.yaml"), ids=lambda row: row["line"])
def test_what_would_fail_later_is_one_line(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]
) -> None:
    line = line_about(monkeypatch, row["at"], row["is"])
    opening = f'environments/golden.yaml: pipeline = "{FUNCTION}": in the definition, '
    assert line.startswith(f"{opening}{row['line']}")


@pytest.mark.parametrize(("kept", "size"), [("gzip", 30), ("none", 500)])
def test_a_model_that_is_kept_as_files_fits_where_it_is_measured(kept: str, size: int) -> None:
    changes = {"output_compression": kept, "volume_size_gb": 500}
    training = environment().training.model_copy(update=changes)
    settings = environment().model_copy(update={"training": training})
    document = definition_of(settings, infrastructure(), launch_of(settings), CHECKOUT)
    step = next(each for each in document["Steps"] if each["Name"] == "Evaluate")
    cluster = step["Arguments"]["ProcessingResources"]["ClusterConfig"]
    assert cluster["VolumeSizeInGB"] == size


def test_a_model_that_is_kept_as_files_is_not_transformed() -> None:
    settings = environment()
    training = settings.training.model_copy(update={"output_compression": "none"})
    settings = settings.model_copy(update={"pipeline": FUNCTION, "training": training})
    with pytest.raises(ConfigError, match=r"Score.ModelName: must be of an archive: write"):
        definition_of(settings, infrastructure(), launch_of(settings), CHECKOUT)


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
