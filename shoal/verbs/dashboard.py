"""Pictures of an environment's CloudWatch dashboard, drawn by CloudWatch itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.verbs.errors import NotFoundError, UsageError
from shoal.verbs.target import Target

_WIDTH, _HEIGHT = 900, 400
_NOT_FOR_IMAGES = "region"
"""A property of dashboards' graphs that GetMetricWidgetImage does not have: it draws its own."""
_NUMBERS = "singleValue"
"""How a dashboard shows numbers, of which GetMetricWidgetImage draws no picture."""


def write_images(target: Target, name: str, hours: float, folder: Path) -> list[Path]:
    """Write one PNG file for each graph of the dashboard `name`, over the last `hours`.

    Raises UsageError on shoal-local, which draws nothing.
    Raises NotFoundError if there is no such dashboard.
    """
    if target.is_local:
        raise UsageError(
            "the emulator draws no dashboards; `aws cloudwatch get-dashboard --dashboard-name"
            f" {name}` prints this one as JSON"
        )
    cloudwatch = target.client("cloudwatch")
    graphs = _graphs(cloudwatch, name, target.description)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, graph in enumerate(graphs, 1):
        answer = cloudwatch.get_metric_widget_image(MetricWidget=_image_request(graph, hours))
        path = folder / f"{number:02}-{_slug(graph['title'])}.png"
        path.write_bytes(answer["MetricWidgetImage"])
        paths.append(path)
    return paths


def _graphs(cloudwatch: Any, name: str, where: str) -> list[dict[str, Any]]:
    try:
        body = json.loads(cloudwatch.get_dashboard(DashboardName=name)["DashboardBody"])
    except (cloudwatch.exceptions.DashboardNotFoundError, cloudwatch.exceptions.ResourceNotFound):
        raise NotFoundError(
            f"there is no dashboard {name} in {where}; deploy the environment first"
        ) from None
    metrics = [widget["properties"] for widget in body["widgets"] if widget["type"] == "metric"]
    return [each for each in metrics if each.get("view") != _NUMBERS]


def _image_request(graph: Mapping[str, Any], hours: float) -> str:
    properties = {key: value for key, value in graph.items() if key != _NOT_FOR_IMAGES}
    start = f"-PT{max(1, round(hours * 60))}M"
    return json.dumps({**properties, "start": start, "width": _WIDTH, "height": _HEIGHT})


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
