"""Monitoring: the sweeper, the alarms and who hears them, the budget, the dashboard."""

from __future__ import annotations

import json
import re
from typing import Any

from shoal.constructs.template_rules import as_list
from shoal.pipelines.requests import FABRIC_METRICS
from shoal.settings.loading.loader import load_environment
from tests.repository import ROOT
from tests.stacks.conftest import TemplateOf
from tests.stacks.reading import (
    Template,
    definition,
    only,
    properties,
    resources,
    statements,
)


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


def test_what_an_execution_starts_carries_the_tag_that_the_budget_counts(
    template_of: TemplateOf,
) -> None:
    budget = only(template_of("told", "monitoring"), "AWS::Budgets::Budget")
    (counted,) = budget["Budget"]["CostFilters"]["TagKeyValue"]
    key, value = counted.removeprefix("user:").split("$")
    train, evaluate, *_ = definition(template_of("told", "pipeline"))["Steps"]
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


def test_what_an_instance_type_lacks_has_no_graph(
    template_of: TemplateOf, monitoring: Template
) -> None:
    plain = graphs(template_of("secret", "monitoring"))  # on CPUs
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


def test_without_an_endpoint_the_dashboard_and_the_alarms_name_nothing_of_one(
    template_of: TemplateOf,
) -> None:
    template, name = template_of("registered", "monitoring"), "shoal-mnist-registered"
    text = json.dumps(only(template, "AWS::CloudWatch::Dashboard"))
    assert f"{name}-smoke-test" not in text
    assert "AWS/SageMaker" not in text
    alarms = {each["AlarmName"] for each in properties(template, "AWS::CloudWatch::Alarm")}
    assert {f"{name}-execution-failed", f"{name}-seal-errors", f"{name}-sweep-missed"} <= alarms
    assert {f"{name}-not-torn-down", f"{name}-teardown-errors"} & alarms == set()
