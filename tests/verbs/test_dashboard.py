"""A dashboard's graphs with the points that CloudWatch has for them."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shoal.verbs.dashboard import read
from shoal.verbs.errors import NotFoundError
from shoal.verbs.target import Target


def put(target: Target, namespace: str, name: str, value: float, **dimensions: str) -> None:
    dims = [{"Name": key, "Value": text} for key, text in dimensions.items()]
    datum = {"MetricName": name, "Value": value, "Dimensions": dims}
    target.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[datum])


def graph(*metrics: list[Any], stat: str = "Sum") -> dict[str, Any]:
    return {
        "type": "metric",
        "properties": {"title": "it", "stat": stat, "period": 60, "metrics": list(metrics)},
    }


def shown(target: Target, *widgets: dict[str, Any]) -> dict[str, list[float]]:
    """The values of the lines of a dashboard with these widgets, by label."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    target.client("cloudwatch").put_dashboard(
        DashboardName=name, DashboardBody=json.dumps({"widgets": widgets})
    )
    return {
        line.label: [value for _, value in line.points]
        for each in read(target, name, 1)
        for line in each.lines
    }


def test_a_named_metric_has_its_points_under_its_label(target: Target) -> None:
    put(target, "Tests", "Things", 3, Pipeline="named")
    widget = graph(
        ["Tests", "Things", "Pipeline", "named", {"label": "things"}],
        ["Tests", "None", "Pipeline", "named"],
    )
    assert {label: sum(values) for label, values in shown(target, widget).items()} == {"things": 3}


def test_a_search_finds_metrics_with_exactly_its_dimensions_and_its_term(target: Target) -> None:
    for job in ("pipelines-cg5srt4dnq28-Train-x", "other-job"):
        put(target, "Tests", "loss", 0.5, TrainingJobName=job)
    put(target, "Tests", "loss", 9, TrainingJobName="pipelines-b-Train", Host="algo-1")
    search = [
        {
            "expression": (
                'SEARCH(\'{"Tests",TrainingJobName} MetricName="loss"'
                " TrainingJobName=pipelines', 'Average', 60)"
            )
        }
    ]
    assert shown(target, graph(search)) == {"loss cg5srt4dnq28": [0.5]}


def test_a_percentile_is_one_of_the_values(target: Target) -> None:
    at, dims = (
        datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5),
        [{"Name": "EndpointName", "Value": "x"}],
    )
    data = [
        {
            "MetricName": "Latency",
            "Values": [float(value) for value in range(1, 101)],
            "Timestamp": at,
            "Dimensions": dims,
        }
    ]
    target.client("cloudwatch").put_metric_data(Namespace="Tests", MetricData=data)
    assert shown(target, graph(["Tests", "Latency", "EndpointName", "x"], stat="p99")) == {
        "Latency": [99]
    }


def test_a_dashboard_that_is_not_there_is_said_with_what_to_do(target: Target) -> None:
    with pytest.raises(NotFoundError, match="deploy the environment first"):
        read(target, "none-such", 1)
