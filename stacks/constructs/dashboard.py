"""The CloudWatch dashboard of one environment: four rows, from its health to its costs.

Namespaces, metrics and dimensions: SageMaker developer guide, "Amazon SageMaker AI metrics in
Amazon CloudWatch". Training's metrics are those of the workload and
`pipelines.requests.FABRIC_METRICS`, the sweeper's are our own. SageMaker generates the names of
jobs, so their metrics are found by SEARCH: it shows every pipeline job of this account and region
that has such metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from config.gates import directions
from config.names import Names
from stacks.constructs.alarms import PIPELINES
from stacks.constructs.sweeper import NAMESPACE, PURPOSE

_JOBS, _ENDPOINTS, _LAMBDA = "/aws/sagemaker/TrainingJobs", "AWS/SageMaker", "AWS/Lambda"
_WIDTH, _HEIGHT, _COLUMNS = 8, 6, 3
_MINUTE, _QUARTER, _DAY = 60, 900, 86_400
Series = list[Any]


class Dashboard(Construct):
    """`body` is the document before CloudFormation fills in the alarms' ARNs."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        steps: Sequence[str],
        alarms: Mapping[str, cloudwatch.Alarm],
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._region = names.environment.region
        widgets = [*self._executions(steps), *self._training(), *self._serving(), *self._costs()]
        self.body = {
            "start": "-PT3H",
            "periodOverride": "inherit",
            "widgets": [
                _alarms([alarm.alarm_arn for alarm in alarms.values()]),
                *map(_placed, range(len(widgets)), widgets),
            ],
        }
        text = cdk.Stack.of(self).to_json_string(self.body)
        cloudwatch.CfnDashboard(
            self, "Dashboard", dashboard_name=names.dashboard, dashboard_body=text
        )

    def _executions(self, steps: Sequence[str]) -> list[dict[str, Any]]:
        pipeline = ["PipelineName", self._names.pipeline]
        counts = ("ExecutionStarted", "ExecutionSucceeded", "ExecutionFailed", "ExecutionStopped")
        durations = [
            [PIPELINES, "StepDuration", *pipeline, "StepName", step, {"label": step}]
            for step in steps
        ]
        return [
            self._graph(
                "Executions", [[PIPELINES, name, *pipeline] for name in counts], "Sum", _QUARTER
            ),
            self._graph("Duration of steps (ms)", durations, "Average", _QUARTER),
            self._graph(
                "Duration of executions (ms)",
                [[PIPELINES, "ExecutionDuration", *pipeline]],
                "Average",
                _QUARTER,
            ),
        ]

    def _training(self) -> list[dict[str, Any]]:
        functions: list[Series] = [
            [
                _LAMBDA,
                "Invocations",
                "FunctionName",
                self._names.function(purpose),
                {"label": purpose},
            ]
            for purpose in (
                *(("compare",) if directions(self._names.environment) else ()),
                *("seal", *self._of_endpoint("smoke-test", "teardown"), PURPOSE),
            )
        ]
        return [
            *self._workload(),
            self._graph(
                "Ranks all on EFA (1 = yes)",
                [_job_metric("fabric:efa", "Minimum")],
                "Minimum",
                _MINUTE,
            ),
            self._graph(
                "All-reduce (GB/s)",
                [_job_metric("fabric:allreduce_gigabytes_per_second", "Minimum")],
                "Minimum",
                _MINUTE,
            ),
            self._graph("Calls of functions", functions, "Sum", _QUARTER),
            self._graph(
                "GPU use (%, 100 per GPU)", [_host_metric("GPUUtilization")], "Average", _MINUTE
            ),
            self._graph(
                "GPU memory (%, 100 per GPU)",
                [_host_metric("GPUMemoryUtilization")],
                "Average",
                _MINUTE,
            ),
            self._graph(
                "CPU and disk (%)",
                [_host_metric("CPUUtilization"), _host_metric("DiskUtilization")],
                "Average",
                _MINUTE,
            ),
        ]

    def _of_endpoint(self, *purposes: str) -> tuple[str, ...]:
        """Return the functions, which are there only where executions make endpoints."""
        return purposes if self._names.environment.endpoint else ()

    def _workload(self) -> Iterator[dict[str, Any]]:
        """Yield a graph for each number that the workload's log lines carry; train:loss and
        test:loss are two lines of one.
        """
        graphs: dict[tuple[str, str], list[Series]] = {}
        for name, metric in self._names.environment.training.metrics.items():
            key = (name.rpartition(":")[2], metric.unit)
            graphs.setdefault(key, []).append(_job_metric(name, "Average"))
        for (name, unit), series in graphs.items():
            words = name.replace("_", " ").capitalize()
            title = f"{words} ({unit})" if unit else words
            yield self._graph(title, series, "Average", _MINUTE)

    def _serving(self) -> list[dict[str, Any]]:
        if self._names.environment.endpoint is None:
            return []
        errors = [
            self._endpoint_metric(name, "Sum")
            for name in ("Invocation4XXErrors", "Invocation5XXErrors")
        ]
        latencies = [
            self._endpoint_metric("ModelLatency", statistic) for statistic in ("p50", "p99")
        ]
        return [
            self._graph("Endpoint latency, p50 and p99 (µs)", latencies, "p99", _MINUTE),
            self._graph(
                "Endpoint calls", [self._endpoint_metric("Invocations", "Sum")], "Sum", _MINUTE
            ),
            self._graph("Endpoint errors", errors, "Sum", _MINUTE),
        ]

    def _costs(self) -> list[dict[str, Any]]:
        pipeline = ["Pipeline", self._names.pipeline]
        endpoints = [
            [NAMESPACE, name, *pipeline] for name in ("Endpoints", "EndpointsPastTtl", "Unremoved")
        ]
        trained = [
            [
                PIPELINES,
                "StepDuration",
                "PipelineName",
                self._names.pipeline,
                "StepName",
                "Train",
                {"label": "ms of training"},
            ]
        ]
        sweeps: list[Series] = [
            [NAMESPACE, "Sweeps", *pipeline],
            [
                _LAMBDA,
                "Errors",
                "FunctionName",
                self._names.function(PURPOSE),
                {"label": "sweeps that failed"},
            ],
        ]
        return [
            self._graph(
                "Endpoints that exist, and past their time", endpoints, "Maximum", _QUARTER
            ),
            self._graph("Training time a day (ms)", trained, "Sum", _DAY),
            self._graph("Sweeps", sweeps, "Sum", _QUARTER),
        ]

    def _graph(
        self, title: str, series: list[Series], statistic: str, period_s: int
    ) -> dict[str, Any]:
        properties = {
            "title": title,
            "view": "timeSeries",
            "region": self._region,
            "stat": statistic,
            "period": period_s,
            "metrics": series,
            "yAxis": {"left": {"min": 0}},
        }
        return {"type": "metric", "properties": properties}

    def _endpoint_metric(self, name: str, statistic: str) -> Series:
        return _search(
            f'{{"{_ENDPOINTS}",EndpointName,VariantName}} MetricName="{name}"'
            f" EndpointName={self._names.pipeline}",
            statistic,
        )


def _job_metric(name: str, statistic: str) -> Series:
    return _search(
        f'{{"{_JOBS}",TrainingJobName}} MetricName="{name}" TrainingJobName=pipelines', statistic
    )


def _host_metric(name: str) -> Series:
    return _search(f'{{"{_JOBS}",Host}} MetricName="{name}" Host=pipelines', "Average")


def _search(query: str, statistic: str) -> Series:
    """Return an expression that matches parts of values.

    In quotes a term would have to match a whole value (CloudWatch user guide).
    """
    return [{"expression": f"SEARCH('{query}', '{statistic}', {_MINUTE})"}]


def _alarms(arns: list[str]) -> dict[str, Any]:
    wide = _WIDTH * _COLUMNS
    return {
        "type": "alarm",
        "x": 0,
        "y": 0,
        "width": wide,
        "height": 3,
        "properties": {"title": "Alarms", "alarms": arns},
    }


def _placed(number: int, widget: dict[str, Any]) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        **widget,
        "x": column * _WIDTH,
        "y": 3 + row * _HEIGHT,
        "width": _WIDTH,
        "height": _HEIGHT,
    }
