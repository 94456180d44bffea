"""What calls the function that starts executions, beyond the rows of templates.yaml."""

from __future__ import annotations

import json

import pytest
from aws_cdk.assertions import Match, Template

from shoal.constructs.schedules.schedules import manifest_variables
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.channels import OnManifest
from tests.repository import ROOT
from tests.stacks.conftest import TemplateOf
from tests.stacks.reading import named, properties, statements


def test_the_function_is_told_which_schedule_for_when_and_with_what(
    template_of: TemplateOf,
) -> None:
    pipeline = template_of("scheduled", "pipeline")
    nightly = named(pipeline, "AWS::Scheduler::Schedule", "nightly")
    arn = "arn:aws:scheduler:us-east-1:111122223333:schedule/shoal-mnist-scheduled/nightly"
    assert json.loads(nightly["Target"]["Input"]) == {
        "schedule": "nightly",
        "schedule_arn": arn,
        "scheduled_time": "<aws.scheduler.scheduled-time>",
        "parameters": {"Epochs": "3"},
    }


def test_a_schedule_that_ends_has_no_alarm(template_of: TemplateOf) -> None:
    alarms = properties(template_of("scheduled", "monitoring"), "AWS::CloudWatch::Alarm")
    assert not [each for each in alarms if "schedule-ending" in each["AlarmName"]]


def test_without_a_rare_schedule_nothing_looks(template_of: TemplateOf) -> None:
    template, name = template_of("manifest", "monitoring"), "shoal-mnist-manifest"
    names = {each["FunctionName"] for each in properties(template, "AWS::Lambda::Function")}
    assert names == {f"{name}-sweep", f"{name}-pages"}
    assert "SeeSchedules" not in statements(template, f"{name}-us-east-1-sweep")


def test_an_environment_without_schedules_has_no_function_that_starts(pipeline: Template) -> None:
    start = {"FunctionName": Match.string_like_regexp(".*-start")}
    assert not pipeline.find_resources("AWS::Lambda::Function", {"Properties": start})


@pytest.mark.parametrize(
    ("declared", "channels"),
    [
        (["DataManifest", "TrainDataUri"], {"TrainDataUri": "{folder}/train/"}),
        (["DataManifest"], {}),
    ],
)
def test_a_pipeline_of_ones_own_gets_the_manifests_channels_that_it_declares(
    declared: list[str], channels: dict[str, str]
) -> None:
    settings = load_environment("dev", ROOT)
    data = settings.data.model_copy(update={"on_manifest": OnManifest(file="ready.json")})
    own = settings.model_copy(update={"data": data, "pipeline": "mine:build"})
    variables = manifest_variables(Names(own), declared)
    parameters = {"DataManifest": "{manifest}", **channels}
    assert json.loads(variables["MANIFEST_PARAMETERS"]) == parameters
