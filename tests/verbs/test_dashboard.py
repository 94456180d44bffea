"""Pictures of a dashboard, with requests that botocore checks against CloudWatch's own model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from botocore.stub import Stubber

from shoal.verbs.dashboard import write_images
from shoal.verbs.errors import NotFoundError, UsageError
from shoal.verbs.target import Target

GRAPH = {
    "title": "Training throughput (images/s)",
    "region": "us-east-1",
    "stat": "Average",
    "period": 60,
    "metrics": [["Tests", "Things", "Pipeline", "p"]],
}
WIDGETS = [
    {"type": "alarm", "properties": {}},
    {"type": "metric", "properties": GRAPH | {"view": "singleValue"}},
    {"type": "metric", "properties": GRAPH},
]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Target:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    return Target("111122223333", "us-east-1")


def test_each_graph_is_a_file_that_cloudwatch_drew(aws: Target, tmp_path: Path) -> None:
    request = {
        "MetricWidget": json.dumps(
            {key: value for key, value in GRAPH.items() if key != "region"}
            | {"start": "-PT90M", "width": 900, "height": 400}
        )
    }
    with Stubber(aws.client("cloudwatch")) as stub:
        stub.add_response(
            "get_dashboard",
            {"DashboardBody": json.dumps({"widgets": WIDGETS})},
            {"DashboardName": "it"},
        )
        stub.add_response("get_metric_widget_image", {"MetricWidgetImage": b"PNG"}, request)
        (path,) = write_images(aws, "it", 1.5, tmp_path / "out")
    assert (path.name, path.read_bytes()) == ("01-training-throughput-images-s.png", b"PNG")


def test_a_dashboard_that_is_not_there_is_said_with_what_to_do(aws: Target, tmp_path: Path) -> None:
    with Stubber(aws.client("cloudwatch")) as stub:
        stub.add_client_error("get_dashboard", "ResourceNotFound")
        with pytest.raises(NotFoundError, match="deploy the environment first"):
            write_images(aws, "none-such", 1, tmp_path)


def test_shoal_local_is_refused_with_where_the_dashboard_is(tmp_path: Path) -> None:
    local = Target("111122223333", "us-east-1", "http://localhost:1")
    with pytest.raises(UsageError, match="get-dashboard --dashboard-name it"):
        write_images(local, "it", 1, tmp_path)
