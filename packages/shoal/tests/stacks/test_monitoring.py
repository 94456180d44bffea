"""Monitoring: the sweeper, the alarms and who hears them, the budget, the dashboard."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from shoal.aws.execution import TERMINAL
from shoal.pipelines.requests import FABRIC_METRICS
from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.observability import Observability
from stacks.platform import EnvironmentStage
from tests.repository import ROOT
from tests.stacks.conftest import MakeStage, MakeVariant
from tests.stacks.reading import as_list, definition, named, only, properties, resources, statements


@pytest.fixture(scope="module")
def monitoring(stages: dict[str, EnvironmentStage]) -> Template:
    return Template.from_stack(stages["dev"].workloads[0].monitoring)


@pytest.fixture(scope="module")
def with_budget(make_stage: MakeStage) -> Template:
    """An environment whose team is told of alarms and of costs."""
    observability = Observability(
        alert_emails=("team@example.com", "boss@example.com"), monthly_budget_usd=500
    )
    stage = make_stage("dev", observability=observability)
    return Template.from_stack(stage.workloads[0].monitoring)


def dashboard(template: Template) -> dict[str, Any]:
    parts = only(template, "AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
    document: dict[str, Any] = json.loads(
        "".join(part if isinstance(part, str) else part["Fn::GetAtt"][0] for part in parts)
    )
    return document


def graphs(template: Template) -> dict[str, list[Any]]:
    """Return the series of each graph of the dashboard, by its title."""
    return {
        each["properties"]["title"]: each["properties"]["metrics"]
        for each in dashboard(template)["widgets"]
        if each["type"] == "metric"
    }


def test_every_alarm_tells_the_topic_when_it_begins_and_when_it_is_over(
    monitoring: Template,
) -> None:
    (topic,) = resources(monitoring, "AWS::SNS::Topic")
    alarms = properties(monitoring, "AWS::CloudWatch::Alarm")
    assert len(alarms) == 9
    assert all(each["AlarmActions"] == each["OKActions"] == [{"Ref": topic}] for each in alarms)


PIPELINES, WAITING = "AWS/Sagemaker/ModelBuildingPipeline", "ApproximateNumberOfMessagesVisible"


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        pytest.param(
            "execution-failed",
            {
                "Namespace": PIPELINES,
                "MetricName": "ExecutionFailed",
                "Dimensions": [{"Name": "PipelineName", "Value": "shoal-mnist-dev"}],
                "Threshold": 1,
                "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                "TreatMissingData": "notBreaching",
            },
            id="an execution failed",
        ),
        pytest.param(
            "not-torn-down", {"Namespace": "AWS/SQS", "MetricName": WAITING}, id="a dead letter"
        ),
        pytest.param(
            "endpoint-past-ttl",
            {
                "Namespace": "Shoal",
                "MetricName": "EndpointsPastTtl",
                "Period": 1800,
                "EvaluationPeriods": 2,
            },
            id="two sweeps saw an endpoint past its time",
        ),
        pytest.param(
            "sweep-missed",
            {
                "MetricName": "Sweeps",
                "ComparisonOperator": "LessThanThreshold",
                "TreatMissingData": "breaching",
            },
            id="no sweep happens",
        ),
    ],
)
def test_what_rings(monitoring: Template, what: str, expected: dict[str, Any]) -> None:
    alarm = named(monitoring, "AWS::CloudWatch::Alarm", f"shoal-mnist-dev-{what}")
    assert expected.items() <= alarm.items()


def test_the_queue_that_is_watched_for_dead_letters_exists(
    monitoring: Template, pipeline: Template
) -> None:
    alarm = named(monitoring, "AWS::CloudWatch::Alarm", "shoal-mnist-dev-not-torn-down")
    (watched,) = alarm["Dimensions"]
    queues = {each.get("QueueName") for each in properties(pipeline, "AWS::SQS::Queue")}
    assert watched["Value"] in queues


def test_the_sweeper_runs_every_quarter_of_an_hour_under_its_own_role(monitoring: Template) -> None:
    function = named(monitoring, "AWS::Lambda::Function", "shoal-mnist-dev-sweep")
    rules = properties(monitoring, "AWS::Events::Rule")
    expressions = [each["ScheduleExpression"] for each in rules if "ScheduleExpression" in each]
    assert expressions == ["rate(15 minutes)"]
    assert function["Handler"] == "sweep.handler"
    assert function["Environment"]["Variables"]["TTL_MINUTES"] == "60"


def test_a_page_is_made_of_every_end_of_this_pipelines_executions(monitoring: Template) -> None:
    rules = properties(monitoring, "AWS::Events::Rule")
    (pattern,) = (each["EventPattern"]["detail"] for each in rules if "EventPattern" in each)
    arn = "arn:aws:sagemaker:us-east-1:111122223333:pipeline/shoal-mnist-dev"
    assert pattern["pipelineArn"] == [arn]
    assert {*pattern["currentPipelineExecutionStatus"]} == TERMINAL


def test_what_makes_pages_writes_nothing_but_pages_and_its_own_log(monitoring: Template) -> None:
    allowed = statements(monitoring, "shoal-mnist-dev-us-east-1-pages")
    reads = re.compile(r"\w+:(Describe|List|Get|Filter)")
    actions = {sid: as_list(entry["Action"]) for sid, entry in allowed.items()}
    writes = {
        sid: others
        for sid, each in actions.items()
        if (others := [action for action in each if not reads.match(action)])
    }
    assert writes == {
        "WriteOwnLog": ["logs:CreateLogStream", "logs:PutLogEvents"],
        "KeepPages": ["s3:PutObject"],
        "UseKey": ["kms:Decrypt", "kms:GenerateDataKey"],
    }
    bucket = "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1"
    assert allowed["KeepPages"]["Resource"] == f"{bucket}/runs/*"


def test_cloudwatch_and_budgets_may_publish_for_this_account_only(
    monitoring: Template, data: Template
) -> None:
    policy = only(monitoring, "AWS::SNS::TopicPolicy")["PolicyDocument"]
    for document in (policy, only(data, "AWS::KMS::Key")["KeyPolicy"]):
        services = {
            entry["Principal"]["Service"]: entry["Condition"]
            for entry in document["Statement"]
            if "Service" in entry.get("Principal", "")
        }
        here = {"StringEquals": {"aws:SourceAccount": "111122223333"}}
        assert services["cloudwatch.amazonaws.com"] == services["budgets.amazonaws.com"] == here


def test_nobody_is_mailed_and_no_budget_is_kept_unless_asked_for(monitoring: Template) -> None:
    monitoring.resource_count_is("AWS::SNS::Subscription", 0)
    monitoring.resource_count_is("AWS::Budgets::Budget", 0)


def test_every_address_is_subscribed(with_budget: Template) -> None:
    subscriptions = properties(with_budget, "AWS::SNS::Subscription")
    assert {(each["Protocol"], each["Endpoint"]) for each in subscriptions} == {
        ("email", "team@example.com"),
        ("email", "boss@example.com"),
    }


def test_the_budget_counts_this_environment_and_warns_three_times(with_budget: Template) -> None:
    budget = only(with_budget, "AWS::Budgets::Budget")
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 500, "Unit": "USD"}
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:shoal:environment$dev"]}
    notices = [each["Notification"] for each in budget["NotificationsWithSubscribers"]]
    assert [(each["NotificationType"], each["Threshold"]) for each in notices] == [
        ("ACTUAL", 80),
        ("ACTUAL", 100),
        ("FORECASTED", 100),
    ]


def test_what_an_execution_starts_carries_the_tag_that_the_budget_counts(
    with_budget: Template, pipeline: Template
) -> None:
    budget = only(with_budget, "AWS::Budgets::Budget")
    (counted,) = budget["Budget"]["CostFilters"]["TagKeyValue"]
    key, value = counted.removeprefix("user:").split("$")
    train, evaluate, *_ = definition(pipeline)["Steps"]
    for step in (train, evaluate):
        assert {"Key": key, "Value": value} in step["Arguments"]["Tags"]


def test_the_dashboard_shows_every_step_of_the_pipeline(
    monitoring: Template, pipeline: Template
) -> None:
    steps = [series[5] for series in graphs(monitoring)["Duration of steps (s)"] if series[1:]]
    assert {"Train", "CreateEndpoint", "Teardown", "GateFailed"} <= set(steps)
    assert steps[:2] == [step["Name"] for step in definition(pipeline)["Steps"]][:2]


def test_durations_are_shown_in_seconds_and_read_hidden(monitoring: Template) -> None:
    read, shown = graphs(monitoring)["Duration of runs (s)"]
    assert (read[-1]["visible"], shown[0]["expression"]) == (False, f"{read[-1]['id']} / 1000")
    lines = [line for (line,) in graphs(monitoring)["Endpoint latency (ms)"]]
    assert [line["label"] for line in lines] == ["p50", "p99"]
    assert all(re.fullmatch(r"SEARCH\(.* 60\) / 1000", line["expression"]) for line in lines)


def test_numbers_stand_above_the_graphs(monitoring: Template) -> None:
    numbers = dashboard(monitoring)["widgets"][1]
    labels = [series[-1].get("label") for series in numbers["properties"]["metrics"]]
    assert (numbers["y"], numbers["properties"]["view"]) == (3, "singleValue")
    assert [label for label in labels if label] == [
        "runs succeeded",
        "runs failed",
        "longest run (s)",
        "training (s)",
        "endpoints at most",
        "past their time",
    ]


def test_what_an_instance_type_lacks_has_no_graph(
    make_variant: MakeVariant, monitoring: Template
) -> None:
    training = {"strategy": "torchrun", "instance_type": "ml.m5.xlarge"}
    stage = make_variant("plain", training=training)
    plain = graphs(Template.from_stack(stage.workloads[0].monitoring))
    assert set(graphs(monitoring)) - set(plain) == {
        "All-reduce (GB/s)",
        "GPU memory (%, 100 per GPU)",
        "GPU use (%, 100 per GPU)",
        "Ranks all on EFA (1 = yes)",
    }


def test_the_dashboard_finds_the_metrics_that_training_defines(monitoring: Template) -> None:
    text = json.dumps(dashboard(monitoring))
    own = load_environment("dev", ROOT).training.metrics
    assert "test:accuracy" in own
    assert all(
        f'MetricName=\\\\\\"{name}\\\\\\"' in text or f'MetricName=\\"{name}\\"' in text
        for name in (*own, *FABRIC_METRICS)
    )


def test_the_same_number_of_two_datasets_is_one_graph(monitoring: Template) -> None:
    numbers = ("Loss", "Accuracy", "Images per second (images/s)")
    assert [len(graphs(monitoring)[each]) for each in numbers] == [2, 1, 1]


def test_widgets_fill_the_grid_without_covering_each_other(monitoring: Template) -> None:
    widgets = dashboard(monitoring)["widgets"]
    cells = [
        (x, y)
        for each in widgets
        for x in range(each["x"], each["x"] + each["width"])
        for y in range(each["y"], each["y"] + each["height"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))


def test_the_dashboard_shows_every_alarm(monitoring: Template) -> None:
    shown = dashboard(monitoring)["widgets"][0]["properties"]["alarms"]
    assert sorted(shown) == sorted(resources(monitoring, "AWS::CloudWatch::Alarm"))


def test_notices_of_alarms_are_encrypted(monitoring: Template) -> None:
    monitoring.has_resource_properties("AWS::SNS::Topic", {"KmsMasterKeyId": Match.any_value()})


def test_every_log_group_is_kept_as_long_as_the_settings_say_and_encrypted(
    stages: dict[str, EnvironmentStage],
) -> None:
    stage = stages["dev"]
    log_groups = [
        each
        for stack in stage.node.children
        for each in properties(Template.from_stack(stack), "AWS::Logs::LogGroup")  # type: ignore[arg-type]
    ]
    assert len(log_groups) >= 5
    assert {each["RetentionInDays"] for each in log_groups} == {90}
    assert all("Key" in json.dumps(each["KmsKeyId"]) for each in log_groups)
