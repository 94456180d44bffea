"""Schedules in the template: when they call which function under which role, what happens to a
failed call, and what rings.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from shoal.constructs.schedules.manifest_start import manifest_variables
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.channels import OnManifest
from shoal.settings.sections.schedules import Schedule
from stacks.platform import EnvironmentStage
from tests.repository import ROOT
from tests.stacks.conftest import MakeStage
from tests.stacks.reading import named, properties, resources, role, statements

PREFIX = "shoal-mnist-dev"
GROUP = f"arn:aws:scheduler:us-east-1:111122223333:schedule-group/{PREFIX}"
SCHEDULES = (
    Schedule(
        name="nightly",
        expression="cron(0 3 * * ? *)",
        time_zone="Europe/Berlin",
        parameters={"Epochs": 3},
        window_minutes=15,
    ),
    Schedule(name="often", expression="rate(6 hours)", paused=True),
    Schedule(name="monthly", expression="cron(0 3 1 * ? *)"),
    Schedule(name="yearly", expression="cron(0 3 1 JAN ? *)", paused=True),
    Schedule(name="ending", expression="cron(0 3 * * ? 2026-2030)"),
)


@pytest.fixture(scope="module")
def stage(make_stage: MakeStage) -> EnvironmentStage:
    return make_stage("dev", schedules=SCHEDULES)


@pytest.fixture(scope="module")
def scheduled(stage: EnvironmentStage) -> Template:
    return Template.from_stack(stage.workloads[0].pipeline)


@pytest.fixture(scope="module")
def watched(stage: EnvironmentStage) -> Template:
    return Template.from_stack(stage.workloads[0].monitoring)


@pytest.fixture(scope="module")
def on_manifest(make_stage: MakeStage) -> EnvironmentStage:
    """An environment without schedules, whose pipeline starts when a manifest arrives."""
    manifest = OnManifest(file="ready.json", parameters={"Epochs": 3})
    data = load_environment("dev", ROOT).data.model_copy(update={"on_manifest": manifest})
    return make_stage("dev", data=data)


@pytest.fixture(scope="module")
def manifest_started(on_manifest: EnvironmentStage) -> Template:
    return Template.from_stack(on_manifest.workloads[0].pipeline)


def alarms(template: Template) -> dict[str, dict[str, Any]]:
    return {
        each["AlarmName"].removeprefix(f"{PREFIX}-"): each
        for each in properties(template, "AWS::CloudWatch::Alarm")
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "nightly",
            {
                "ScheduleExpression": "cron(0 3 * * ? *)",
                "ScheduleExpressionTimezone": "Europe/Berlin",
                "State": "ENABLED",
                "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
            },
        ),
        ("often", {"State": "DISABLED", "FlexibleTimeWindow": {"Mode": "OFF"}}),
    ],
)
def test_a_schedule_is_what_the_file_says(
    scheduled: Template, name: str, expected: dict[str, Any]
) -> None:
    assert expected.items() <= named(scheduled, "AWS::Scheduler::Schedule", name).items()


def test_the_function_is_told_which_schedule_for_when_and_with_what(scheduled: Template) -> None:
    nightly = named(scheduled, "AWS::Scheduler::Schedule", "nightly")
    assert json.loads(nightly["Target"]["Input"]) == {
        "schedule": "nightly",
        "schedule_arn": f"arn:aws:scheduler:us-east-1:111122223333:schedule/{PREFIX}/nightly",
        "scheduled_time": "<aws.scheduler.scheduled-time>",
        "parameters": {"Epochs": "3"},
    }


def test_a_call_is_tried_three_times_within_an_hour_and_then_kept(scheduled: Template) -> None:
    (dead_letters,) = [
        key for key in resources(scheduled, "AWS::SQS::Queue") if key.startswith("Schedules")
    ]
    retry = {"MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": 3600}
    for each in properties(scheduled, "AWS::Scheduler::Schedule"):
        assert each["Target"]["RetryPolicy"] == retry
        assert each["Target"]["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": [dead_letters, "Arn"]}}


def test_schedulers_role_is_for_this_account_and_group(scheduled: Template) -> None:
    _, scheduler_role = role(scheduled, f"{PREFIX}-us-east-1-scheduler")
    (trust,) = scheduler_role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "111122223333"},
        "ArnLike": {"aws:SourceArn": GROUP},
    }


def test_nothing_calls_before_the_pipeline_and_the_policies_are_there(scheduled: Template) -> None:
    policies = resources(scheduled, "AWS::IAM::Policy")
    awaited = {key for key in policies if key.startswith("Schedules")}
    awaited |= set(resources(scheduled, "AWS::SageMaker::Pipeline"))
    for each in resources(scheduled, "AWS::Scheduler::Schedule").values():
        assert awaited <= set(each["DependsOn"])


@pytest.mark.parametrize(
    ("purpose", "expected"),
    [
        pytest.param(
            "schedule-nightly-missed",
            {
                "Namespace": "Shoal",
                "MetricName": "ScheduledStarts",
                "Statistic": "SampleCount",
                "Dimensions": [
                    {"Name": "Pipeline", "Value": PREFIX},
                    {"Name": "Schedule", "Value": "nightly"},
                ],
                "Period": 3600,
                "EvaluationPeriods": 28,
                "ComparisonOperator": "LessThanThreshold",
                "TreatMissingData": "breaching",
                "ActionsEnabled": True,
            },
            id="no sign for longer than its times are apart",
        ),
        pytest.param("schedule-often-missed", {"ActionsEnabled": False}, id="paused"),
        pytest.param(
            "schedule-monthly-missed",
            {
                "Namespace": "Shoal",
                "MetricName": "ScheduleOverdue",
                "Statistic": "Maximum",
                "Dimensions": [
                    {"Name": "Pipeline", "Value": PREFIX},
                    {"Name": "Schedule", "Value": "monthly"},
                ],
                "Threshold": 1,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "Period": 3 * 3600,
                "EvaluationPeriods": 1,
                "TreatMissingData": "breaching",
            },
            id="too rare for an alarm: the sweeper says so, or nothing for three hours",
        ),
        pytest.param("schedule-yearly-missed", {"ActionsEnabled": False}, id="rare and paused"),
        pytest.param(
            "schedule-undelivered",
            {
                "MetricName": "ApproximateNumberOfMessagesVisible",
                "Dimensions": [{"Name": "QueueName", "Value": f"{PREFIX}-start-dead-letters"}],
                "Threshold": 1,
                "Statistic": "Maximum",
            },
            id="a call was given up",
        ),
        pytest.param("start-errors", {"MetricName": "Errors"}, id="the function failed"),
    ],
)
def test_what_rings(watched: Template, purpose: str, expected: dict[str, Any]) -> None:
    (topic,) = resources(watched, "AWS::SNS::Topic")
    alarm = alarms(watched)[purpose]
    assert expected.items() <= alarm.items()
    assert alarm["AlarmActions"] == [{"Ref": topic}]


def test_a_schedule_that_ends_has_no_alarm(watched: Template) -> None:
    assert "schedule-ending-missed" not in alarms(watched)


def test_the_alarm_watches_the_queue_that_there_is(scheduled: Template) -> None:
    assert f"{PREFIX}-start-dead-letters" in {
        each.get("QueueName") for each in properties(scheduled, "AWS::SQS::Queue")
    }


def test_the_sweeper_knows_the_rare_schedules_and_may_look_at_them_and_at_metrics(
    watched: Template,
) -> None:
    sweeper = named(watched, "AWS::Lambda::Function", f"{PREFIX}-sweep")
    variables = sweeper["Environment"]["Variables"]
    assert variables["SCHEDULE_GROUP"] == PREFIX
    assert json.loads(variables["SILENT_HOURS"]) == {
        "monthly": 31 * 24 + 2,
        "yearly": 366 * 24 + 2,
    }
    allowed = statements(watched, f"{PREFIX}-us-east-1-sweep")
    assert allowed["SeeSchedules"]["Action"] == "scheduler:GetSchedule"
    assert allowed["SeeSchedules"]["Resource"] == [
        f"arn:aws:scheduler:us-east-1:111122223333:schedule/{PREFIX}/{name}"
        for name in ("monthly", "yearly")
    ]
    assert allowed["SeeSigns"]["Action"] == "cloudwatch:GetMetricData"


def test_without_a_rare_schedule_nothing_looks(on_manifest: EnvironmentStage) -> None:
    template = Template.from_stack(on_manifest.workloads[0].monitoring)
    names = {each["FunctionName"] for each in properties(template, "AWS::Lambda::Function")}
    assert names == {f"{PREFIX}-sweep", f"{PREFIX}-pages"}
    sweeper = named(template, "AWS::Lambda::Function", f"{PREFIX}-sweep")
    assert "SILENT_HOURS" not in sweeper["Environment"]["Variables"]
    assert "SeeSchedules" not in statements(template, f"{PREFIX}-us-east-1-sweep")


def test_an_environment_without_schedules_has_nothing_of_them(pipeline: Template) -> None:
    pipeline.resource_count_is("AWS::Scheduler::ScheduleGroup", 0)
    assert not pipeline.find_resources(
        "AWS::Lambda::Function",
        {"Properties": {"FunctionName": Match.string_like_regexp(".*-start")}},
    )


def test_a_manifest_calls_the_function_within_an_hour_or_leaves_a_dead_letter(
    manifest_started: Template,
) -> None:
    (rule,) = [
        each
        for each in properties(manifest_started, "AWS::Events::Rule")
        if each["EventPattern"]["source"] == ["aws.s3"]
    ]
    assert rule["EventPattern"]["detail"] == {
        "bucket": {"name": [f"{PREFIX}-data-111122223333-us-east-1"]},
        "object": {"key": [{"suffix": "/ready.json"}]},
    }
    (target,) = rule["Targets"]
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 2}
    assert "SchedulesDeadLetters" in json.dumps(target["DeadLetterConfig"])


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


def test_the_function_reads_manifests_and_names_and_no_data(manifest_started: Template) -> None:
    allowed = statements(manifest_started, f"{PREFIX}-us-east-1-start")
    bucket = f"arn:aws:s3:::{PREFIX}-data-111122223333-us-east-1"
    assert allowed["ReadManifests"]["Resource"] == f"{bucket}/datasets/*/ready.json"
    assert allowed["SeeFiles"]["Condition"] == {"StringLike": {"s3:prefix": ["datasets/*"]}}


def test_the_dataset_beside_the_manifest_is_what_is_trained_on(manifest_started: Template) -> None:
    starter = named(manifest_started, "AWS::Lambda::Function", f"{PREFIX}-start")
    assert json.loads(starter["Environment"]["Variables"]["MANIFEST_PARAMETERS"]) == {
        "DataManifest": "{manifest}",
        "TrainDataUri": "{folder}/train/",
        "TestDataUri": "{folder}/test/",
        "Epochs": "3",
    }


def test_without_schedules_there_is_nothing_that_scheduler_may_take(
    manifest_started: Template,
) -> None:
    assert properties(manifest_started, "AWS::Scheduler::ScheduleGroup") == []
    roles = [each["RoleName"] for each in properties(manifest_started, "AWS::IAM::Role")]
    assert not [name for name in roles if name.endswith("-scheduler")]
