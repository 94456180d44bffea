"""Schedules in the template: when they call which function under which role, what happens to a
failed call, and what rings.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from shoal.constructs.app import Deployment
from shoal.constructs.schedules.manifest_start import manifest_variables
from shoal.launch import launch_of
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.channels import OnManifest
from shoal.settings.sections.schedules import Schedule
from stacks.platform import EnvironmentStage
from tests.app import ShoalApp
from tests.repository import ROOT
from tests.stacks.reading import properties, resources, role, statements

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
def stage(
    tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]
) -> EnvironmentStage:
    environment = load_environment("dev", ROOT).model_copy(update={"schedules": SCHEDULES})
    app = ShoalApp(
        outdir=str(tmp_path_factory.mktemp("cdk.out")), context=cdk_context, checked=False
    )
    return EnvironmentStage(
        app, workloads=[Deployment(environment, launch_of(environment, ROOT))], root=ROOT
    )


@pytest.fixture(scope="module")
def scheduled(stage: EnvironmentStage) -> Template:
    return Template.from_stack(stage.workloads[0].pipeline)


@pytest.fixture(scope="module")
def watched(stage: EnvironmentStage) -> Template:
    return Template.from_stack(stage.workloads[0].monitoring)


def schedule(template: Template, name: str) -> dict[str, Any]:
    (only_one,) = [
        each for each in properties(template, "AWS::Scheduler::Schedule") if each["Name"] == name
    ]
    return only_one


def alarms(template: Template) -> dict[str, dict[str, Any]]:
    return {
        each["AlarmName"].removeprefix(f"{PREFIX}-"): each
        for each in properties(template, "AWS::CloudWatch::Alarm")
    }


def test_a_schedule_is_what_the_file_says(scheduled: Template) -> None:
    nightly = schedule(scheduled, "nightly")
    assert (
        nightly["ScheduleExpression"],
        nightly["ScheduleExpressionTimezone"],
        nightly["State"],
    ) == (
        "cron(0 3 * * ? *)",
        "Europe/Berlin",
        "ENABLED",
    )
    assert nightly["FlexibleTimeWindow"] == {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15}
    assert schedule(scheduled, "often")["FlexibleTimeWindow"] == {"Mode": "OFF"}


def test_a_paused_schedule_is_there_and_disabled(scheduled: Template) -> None:
    assert schedule(scheduled, "often")["State"] == "DISABLED"


def test_the_function_is_told_which_schedule_for_when_and_with_what(scheduled: Template) -> None:
    assert json.loads(schedule(scheduled, "nightly")["Target"]["Input"]) == {
        "schedule": "nightly",
        "schedule_arn": f"arn:aws:scheduler:us-east-1:111122223333:schedule/{PREFIX}/nightly",
        "scheduled_time": "<aws.scheduler.scheduled-time>",
        "parameters": {"Epochs": "3"},
    }


def test_a_call_is_tried_three_times_within_an_hour_and_then_kept(scheduled: Template) -> None:
    (dead_letters,) = [
        key for key in resources(scheduled, "AWS::SQS::Queue") if key.startswith("Schedules")
    ]
    for each in properties(scheduled, "AWS::Scheduler::Schedule"):
        assert each["Target"]["RetryPolicy"] == {
            "MaximumRetryAttempts": 2,
            "MaximumEventAgeInSeconds": 3600,
        }
        assert each["Target"]["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": [dead_letters, "Arn"]}}


def test_schedulers_role_is_for_this_account_and_group(
    scheduled: Template,
) -> None:
    _, scheduler_role = role(scheduled, f"{PREFIX}-us-east-1-scheduler")
    (trust,) = scheduler_role["AssumeRolePolicyDocument"]["Statement"]
    assert (trust["Principal"], trust["Condition"]) == (
        {"Service": "scheduler.amazonaws.com"},
        {
            "StringEquals": {"aws:SourceAccount": "111122223333"},
            "ArnLike": {"aws:SourceArn": GROUP},
        },
    )


def test_nothing_calls_before_the_pipeline_and_the_policies_are_there(scheduled: Template) -> None:
    waits_for = {
        kind: resources(scheduled, kind)
        for kind in ("AWS::SageMaker::Pipeline", "AWS::IAM::Policy")
    }
    for each in resources(scheduled, "AWS::Scheduler::Schedule").values():
        assert set(waits_for["AWS::SageMaker::Pipeline"]) <= set(each["DependsOn"])
        assert {key for key in waits_for["AWS::IAM::Policy"] if key.startswith("Schedules")} <= set(
            each["DependsOn"]
        )


def test_a_schedule_that_gives_no_sign_for_longer_than_its_times_are_apart_rings(
    watched: Template,
) -> None:
    missed = alarms(watched)["schedule-nightly-missed"]
    assert (missed["Namespace"], missed["MetricName"], missed["Statistic"]) == (
        "Shoal",
        "ScheduledStarts",
        "SampleCount",
    )
    assert missed["Dimensions"] == [
        {"Name": "Pipeline", "Value": PREFIX},
        {"Name": "Schedule", "Value": "nightly"},
    ]
    assert (
        missed["Period"] * missed["EvaluationPeriods"],
        missed["ComparisonOperator"],
        missed["TreatMissingData"],
    ) == (
        28 * 3600,
        "LessThanThreshold",
        "breaching",
    )


def test_an_alarm_tells_the_topic_and_a_paused_schedules_tells_nobody(watched: Template) -> None:
    (topic,) = resources(watched, "AWS::SNS::Topic")
    by_purpose = alarms(watched)
    assert by_purpose["schedule-nightly-missed"]["AlarmActions"] == [{"Ref": topic}]
    assert [
        by_purpose[f"schedule-{name}-missed"]["ActionsEnabled"] for name in ("nightly", "often")
    ] == [True, False]


def test_of_a_schedule_that_is_rarer_than_an_alarm_looks_back_a_function_says_whether_it_is_overdue(
    watched: Template,
) -> None:
    missed = alarms(watched)["schedule-monthly-missed"]
    assert (missed["Namespace"], missed["MetricName"], missed["Statistic"]) == (
        "Shoal",
        "ScheduleOverdue",
        "Maximum",
    )
    assert missed["Dimensions"] == [
        {"Name": "Pipeline", "Value": PREFIX},
        {"Name": "Schedule", "Value": "monthly"},
    ]
    assert (missed["Threshold"], missed["ComparisonOperator"]) == (
        1,
        "GreaterThanOrEqualToThreshold",
    )


def test_such_an_alarm_rings_as_well_when_nothing_has_been_said_for_three_looks(
    watched: Template,
) -> None:
    missed = alarms(watched)["schedule-monthly-missed"]
    assert (missed["Period"], missed["EvaluationPeriods"], missed["TreatMissingData"]) == (
        3 * 3600,
        1,
        "breaching",
    )
    assert [
        each["ScheduleExpression"]
        for each in properties(watched, "AWS::Events::Rule")
        if "overdue" in each["Description"]
    ] == ["rate(1 hour)"]
    assert alarms(watched)["overdue-errors"]["MetricName"] == "Errors"


def test_the_function_knows_the_rare_schedules_and_may_look_at_them_and_at_metrics_only(
    watched: Template,
) -> None:
    (function,) = [
        each
        for each in properties(watched, "AWS::Lambda::Function")
        if each["FunctionName"] == f"{PREFIX}-overdue"
    ]
    assert json.loads(function["Environment"]["Variables"]["SILENT_HOURS"]) == {
        "monthly": 31 * 24 + 2,
        "yearly": 366 * 24 + 2,
    }
    allowed = statements(watched, f"{PREFIX}-us-east-1-overdue")
    assert {key: entry["Action"] for key, entry in allowed.items() if key != "WriteOwnLog"} == {
        "SeeSchedules": "scheduler:GetSchedule",
        "SeeSigns": "cloudwatch:GetMetricData",
        "Measure": "cloudwatch:PutMetricData",
    }
    assert allowed["SeeSchedules"]["Resource"] == [
        f"arn:aws:scheduler:us-east-1:111122223333:schedule/{PREFIX}/{name}"
        for name in ("monthly", "yearly")
    ]


def test_a_paused_rare_schedule_tells_nobody_and_one_that_ends_has_no_alarm(
    watched: Template,
) -> None:
    assert alarms(watched)["schedule-yearly-missed"]["ActionsEnabled"] is False
    assert "schedule-ending-missed" not in alarms(watched)


def test_a_call_that_was_given_up_rings_and_so_does_a_function_that_fails(
    watched: Template, scheduled: Template
) -> None:
    by_purpose = alarms(watched)
    (queue,) = by_purpose["schedule-undelivered"]["Dimensions"]
    assert queue["Value"] in {
        each.get("QueueName") for each in properties(scheduled, "AWS::SQS::Queue")
    }
    assert (
        by_purpose["schedule-undelivered"]["Threshold"],
        by_purpose["schedule-undelivered"]["Statistic"],
    ) == (1, "Maximum")
    assert by_purpose["start-errors"]["MetricName"] == "Errors"


def test_the_function_measures_what_the_alarm_watches() -> None:
    source = (
        ROOT / "packages" / "shoal" / "src" / "shoal" / "functions" / "start" / "handler.py"
    ).read_text()
    assert 'Namespace="Shoal"' in source
    assert all(
        f'"{name}"' in source
        for name in ("ScheduledStarts", "SkippedOverlap", "Pipeline", "Schedule")
    )


def test_without_a_rare_schedule_nothing_looks(manifest_stage: EnvironmentStage) -> None:
    functions = properties(
        Template.from_stack(manifest_stage.workloads[0].monitoring), "AWS::Lambda::Function"
    )
    names = {each["FunctionName"] for each in functions}
    assert names == {f"{PREFIX}-sweep", f"{PREFIX}-pages"}


def test_an_environment_without_schedules_has_nothing_of_them(pipeline: Template) -> None:
    pipeline.resource_count_is("AWS::Scheduler::ScheduleGroup", 0)
    assert not pipeline.find_resources(
        "AWS::Lambda::Function",
        {"Properties": {"FunctionName": Match.string_like_regexp(".*-start")}},
    )


@pytest.fixture(scope="module")
def manifest_stage(
    tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]
) -> EnvironmentStage:
    """An environment without schedules, whose pipeline starts when a manifest arrives."""
    dev = load_environment("dev", ROOT)
    data = dev.data.model_copy(
        update={"on_manifest": OnManifest(file="ready.json", parameters={"Epochs": 3})}
    )
    app = ShoalApp(
        outdir=str(tmp_path_factory.mktemp("cdk.out")), context=cdk_context, checked=False
    )
    environment = dev.model_copy(update={"data": data})
    return EnvironmentStage(
        app, workloads=[Deployment(environment, launch_of(environment, ROOT))], root=ROOT
    )


def test_a_manifest_in_the_data_bucket_calls_the_function_within_an_hour_or_leaves_a_dead_letter(
    manifest_stage: EnvironmentStage,
) -> None:
    template = Template.from_stack(manifest_stage.workloads[0].pipeline)
    (rule,) = [
        each
        for each in properties(template, "AWS::Events::Rule")
        if each["EventPattern"]["source"] == ["aws.s3"]
    ]
    bucket = f"{PREFIX}-data-111122223333-us-east-1"
    assert rule["EventPattern"]["detail"] == {
        "bucket": {"name": [bucket]},
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
    assert json.loads(variables["MANIFEST_PARAMETERS"]) == {
        "DataManifest": "{manifest}",
        **channels,
    }


def test_the_function_reads_manifests_and_names_and_no_data(
    manifest_stage: EnvironmentStage,
) -> None:
    allowed = statements(
        Template.from_stack(manifest_stage.workloads[0].pipeline), f"{PREFIX}-us-east-1-start"
    )
    bucket = f"arn:aws:s3:::{PREFIX}-data-111122223333-us-east-1"
    assert allowed["ReadManifests"]["Resource"] == f"{bucket}/datasets/*/ready.json"
    assert allowed["SeeFiles"]["Condition"] == {"StringLike": {"s3:prefix": ["datasets/*"]}}


def test_the_dataset_beside_the_manifest_is_what_is_trained_on(
    manifest_stage: EnvironmentStage,
) -> None:
    functions = properties(
        Template.from_stack(manifest_stage.workloads[0].pipeline), "AWS::Lambda::Function"
    )
    (starter,) = [each for each in functions if each["FunctionName"] == f"{PREFIX}-start"]
    assert json.loads(starter["Environment"]["Variables"]["MANIFEST_PARAMETERS"]) == {
        "DataManifest": "{manifest}",
        "TrainDataUri": "{folder}/train/",
        "TestDataUri": "{folder}/test/",
        "Epochs": "3",
    }


def test_without_schedules_there_is_no_group_and_nothing_that_scheduler_may_take(
    manifest_stage: EnvironmentStage,
) -> None:
    template = Template.from_stack(manifest_stage.workloads[0].pipeline)
    assert properties(template, "AWS::Scheduler::ScheduleGroup") == []
    assert not [
        each
        for each in properties(template, "AWS::IAM::Role")
        if each["RoleName"].endswith("-scheduler")
    ]
