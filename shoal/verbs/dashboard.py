"""What an environment's CloudWatch dashboard shows: its name goes in, its graphs with their points
come out, from AWS or from loopback.

Only what our own dashboards are made of is read: graphs of named metrics and of SEARCH expressions.
SEARCH is resolved here, with ListMetrics, so that both targets answer the same question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal.verbs.errors import NotFoundError
from shoal.verbs.metric_search import Search, parse
from shoal.verbs.target import Target

_MOST_QUERIES = 500
"""GetMetricData's limit."""


@dataclass(frozen=True)
class Line:
    """One curve. `points`: instants (UTC) and values, ascending."""

    label: str
    points: tuple[tuple[datetime, float], ...]


@dataclass(frozen=True)
class Graph:
    """One widget of type `metric`."""

    title: str
    period_s: int
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class _Query:
    graph: int
    label: str
    stat: str
    period_s: int
    metric: Mapping[str, Any]


def read(target: Target, name: str, hours: float) -> list[Graph]:
    """The graphs of the dashboard `name` over the last `hours`.

    Raises NotFoundError when there is none.
    """
    cloudwatch = target.client("cloudwatch")
    try:
        body = json.loads(cloudwatch.get_dashboard(DashboardName=name)["DashboardBody"])
    except (cloudwatch.exceptions.DashboardNotFoundError, cloudwatch.exceptions.ResourceNotFound):
        raise NotFoundError(
            f"there is no dashboard {name} in {target.description}; deploy the environment first"
        ) from None
    graphs = [widget["properties"] for widget in body["widgets"] if widget["type"] == "metric"]
    queries = [
        query
        for number, graph in enumerate(graphs)
        for query in _queries(cloudwatch, number, graph)
    ]
    lines = _lines(cloudwatch, queries, hours)
    return [
        Graph(graph["title"], graph["period"], tuple(_of_graph(number, queries, lines)))
        for number, graph in enumerate(graphs)
    ]


def _of_graph(number: int, queries: Sequence[_Query], lines: Sequence[Line]) -> Iterator[Line]:
    return (
        line
        for query, line in zip(queries, lines, strict=True)
        if query.graph == number and line.points
    )


def _queries(cloudwatch: Any, number: int, graph: Mapping[str, Any]) -> Iterator[_Query]:
    for entry in graph["metrics"]:
        if isinstance(entry[0], Mapping):
            yield from _found(cloudwatch, number, entry[0]["expression"])
            continue
        options = entry[-1] if isinstance(entry[-1], Mapping) else {}
        namespace, name, *pairs = [part for part in entry if isinstance(part, str)]
        dimensions = [
            {"Name": key, "Value": value}
            for key, value in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        metric = {"Namespace": namespace, "MetricName": name, "Dimensions": dimensions}
        yield _Query(number, options.get("label", name), graph["stat"], graph["period"], metric)


def _found(cloudwatch: Any, number: int, expression: str) -> Iterator[_Query]:
    """The metrics that a SEARCH expression finds."""
    search = parse(expression)
    pages = cloudwatch.get_paginator("list_metrics").paginate(
        Namespace=search.namespace, MetricName=search.name
    )
    found = {
        tuple(sorted((each["Name"], each["Value"]) for each in metric["Dimensions"]))
        for page in pages
        for metric in page["Metrics"]
    }
    for dimensions in sorted(found):
        values = dict(dimensions)
        if search.finds(values):
            named = [{"Name": key, "Value": value} for key, value in dimensions]
            metric = {"Namespace": search.namespace, "MetricName": search.name, "Dimensions": named}
            yield _Query(
                number, _label(search, values[search.key]), search.stat, search.period_s, metric
            )


def _label(search: Search, owner: str) -> str:
    """`train:loss cg5srt4dnq28`: the metric and the execution, which is what differs between jobs
    and endpoints of one pipeline.
    """
    execution = re.search(r"(?<![a-z0-9])[a-z0-9]{12}(?![a-z0-9])", owner)
    name = f"{search.stat} {search.name}" if search.stat.startswith("p") else search.name
    return f"{name} {execution[0] if execution else owner}"


def _lines(cloudwatch: Any, queries: Sequence[_Query], hours: float) -> list[Line]:
    now = datetime.now(UTC)
    lines: list[Line] = []
    for start in range(0, len(queries), _MOST_QUERIES):
        some = queries[start : start + _MOST_QUERIES]
        asked = [
            {
                "Id": f"m{number}",
                "MetricStat": {
                    "Metric": query.metric,
                    "Period": query.period_s,
                    "Stat": query.stat,
                },
            }
            for number, query in enumerate(some)
        ]
        times = {"StartTime": now - timedelta(hours=hours), "EndTime": now + timedelta(minutes=1)}
        points: dict[str, list[tuple[datetime, float]]] = {
            f"m{number}": [] for number in range(len(some))
        }
        for page in cloudwatch.get_paginator("get_metric_data").paginate(
            MetricDataQueries=asked, **times
        ):
            for result in page["MetricDataResults"]:
                points[result["Id"]] += zip(result["Timestamps"], result["Values"], strict=True)
        lines += [
            Line(query.label, tuple(sorted(points[f"m{number}"])))
            for number, query in enumerate(some)
        ]
    return lines
