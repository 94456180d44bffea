"""The CloudWatch dashboard of one environment: alarms, numbers, and graphs from its health to its
costs.

Namespaces, metrics and dimensions: SageMaker developer guide, "Amazon SageMaker AI metrics in
Amazon CloudWatch". Training's metrics are those of the workload and
`shoal.pipelines.requests.FABRIC_METRICS`, the sweeper's are our own. The definition leaves the
names of jobs to SageMaker, so their metrics are found by SEARCH: it shows every pipeline job of
this account and region that has such metrics. A line says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from shoal.constructs.monitoring.alarms import PIPELINES
from shoal.constructs.teardown import NAMESPACE
from shoal.constructs.teardown import SWEEPER_PURPOSE as PURPOSE
from shoal.launch.contract import has_efa
from shoal.launch.tables import has_gpus
from shoal.pipelines import step_names
from shoal.settings.names import Names

_JOBS, _ENDPOINTS, _LAMBDA = "/aws/sagemaker/TrainingJobs", "AWS/SageMaker", "AWS/Lambda"
_WIDTH, _HEIGHT, _COLUMNS = 8, 6, 3
_ALARMS, _NUMBERS, _NOTE = 3, 3, 1
"""Heights of what stands above graphs."""
_WHOSE = (
    "Below, up to the calls of functions: jobs of **every** pipeline in this account and region,"
    " because the names of jobs do not tell the pipeline."
)
_MINUTE, _QUARTER, _DAY = 60, 900, 86_400
_LOOKED_BACK = "-P14D"
"""Where a point is a day."""
_ENDS = ("ExecutionSucceeded", "ExecutionFailed", "ExecutionStopped")
# Title of a graph -> its metrics.
_FABRIC = {
    "Ranks all on EFA (1 = yes)": "fabric:efa",
    "All-reduce (GB/s)": "fabric:allreduce_gigabytes_per_second",
}
_GPUS = {
    "GPU use (%, 100 per GPU)": "GPUUtilization",
    "GPU memory (%, 100 per GPU)": "GPUMemoryUtilization",
}
_HOSTS = {"CPU (%, 100 per core)": "CPUUtilization", "Disk (%)": "DiskUtilization"}
_ANSWERS = {
    "Endpoint calls": ("Invocations",),
    "Endpoint errors": ("Invocation4XXErrors", "Invocation5XXErrors"),
}
_LEFT = {
    "Endpoints": "endpoints",
    "EndpointsPastTtl": "past their time",
    "Unremoved": "not removed",
}
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
        self._pipeline = ["PipelineName", names.pipeline]
        self._train = [*self._pipeline, "StepName", step_names.TRAIN]
        widgets = [*self._executions(steps), *self._training(), *self._serving(), *self._costs()]
        if names.environment.scoring:
            own = ["PipelineName", names.scoring.pipeline]
            widgets += self._ends(own, "scoring", "scoring")
        self.body = {
            "start": "-PT3H",
            "periodOverride": "inherit",
            "widgets": [
                {
                    "type": "alarm",
                    **_whole_row(0, _ALARMS),
                    "properties": {
                        "title": "Alarms",
                        "alarms": [alarm.alarm_arn for alarm in alarms.values()],
                    },
                },
                self._numbers(),
                # Between the first row of graphs and the others.
                {
                    "type": "text",
                    **_whole_row(_ALARMS + _NUMBERS + _HEIGHT, _NOTE),
                    "properties": {"markdown": _WHOSE, "background": "transparent"},
                },
                *map(_placed, range(len(widgets)), widgets),
            ],
        }
        text = cdk.Stack.of(self).to_json_string(self.body)
        cloudwatch.CfnDashboard(
            self, "Dashboard", dashboard_name=names.dashboard, dashboard_body=text
        )

    def _numbers(self) -> dict[str, Any]:
        """Return the row of numbers: of the whole time that the dashboard shows."""
        counts = {"ExecutionSucceeded": "runs succeeded", "ExecutionFailed": "runs failed"}
        series = [
            [PIPELINES, name, *self._pipeline, {"label": label, "stat": "Sum"}]
            for name, label in counts.items()
        ]
        series += _in_seconds("ExecutionDuration", {"longest run (s)": self._pipeline}, "Maximum")
        series += _in_seconds("StepDuration", {"training (s)": self._train}, "Sum")
        swept = {"Endpoints": "endpoints at most", "EndpointsPastTtl": "past their time"}
        numbers = self._graph("In this time", [*series, *self._own(swept)], "Maximum")
        numbers["properties"] |= {"view": "singleValue", "setPeriodToTimeRange": True}
        return {**numbers, **_whole_row(_ALARMS, _NUMBERS)}

    def _own(self, labels: Mapping[str, str]) -> list[Series]:
        """Return metrics of the sweeper with their labels."""
        pipeline = ["Pipeline", self._names.pipeline]
        return [[NAMESPACE, name, *pipeline, {"label": label}] for name, label in labels.items()]

    def _calls(self, metric: str, purpose: str, label: str) -> Series:
        """Return a metric that Lambda keeps of the function for `purpose`."""
        return [_LAMBDA, metric, "FunctionName", self._names.function(purpose), {"label": label}]

    def _ends(self, pipeline: list[str], title: str, label: str) -> list[dict[str, Any]]:
        """Return graphs of how a pipeline's executions end, and how long they take."""
        ends: list[Series] = [[PIPELINES, name, *pipeline] for name in _ENDS]
        runs = _in_seconds("ExecutionDuration", {label: pipeline}, "Average")
        return [
            self._graph(f"Ends of {title}", ends, "Sum"),
            self._graph(f"Duration of {title} (s)", runs, "Average"),
        ]

    def _executions(self, steps: Sequence[str]) -> list[dict[str, Any]]:
        by_step = {step: [*self._pipeline, "StepName", step] for step in steps}
        durations = _in_seconds("StepDuration", by_step, "Average")
        return [
            *self._ends(self._pipeline, "runs", "run"),
            self._graph("Duration of steps (s)", durations, "Average", legend="right"),
        ]

    def _training(self) -> Iterator[dict[str, Any]]:
        """Yield graphs of jobs; those of devices that no instance type has would stay empty."""
        environment = self._names.environment
        types = environment.training.candidates
        yield from self._workload()
        if any(map(has_efa, types)):
            for title, name in _FABRIC.items():
                yield self._graph(title, [_job_metric(name, "Minimum")], "Minimum", _MINUTE)
        hosts = (_GPUS if any(map(has_gpus, types)) else {}) | _HOSTS
        for title, name in hosts.items():
            metric = _search(f'"{_JOBS}",Host', name, "Host=pipelines", "Average")
            yield self._graph(title, [metric], "Average", _MINUTE)
        functions = ["compare"] if environment.compared_metrics else []
        functions += ["seal", "smoke-test", "teardown"] if environment.endpoint else ["seal"]
        calls = [self._calls("Invocations", each, each) for each in [*functions, PURPOSE]]
        yield self._graph("Calls of functions", calls, "Sum")

    def _workload(self) -> Iterator[dict[str, Any]]:
        """Yield a graph for each number of the workload's log; two of one name are lines of one."""
        graphs: dict[tuple[str, str], list[Series]] = {}
        for name, metric in self._names.environment.training.metrics.items():
            key = (name.rpartition(":")[2], metric.unit)
            graphs.setdefault(key, []).append(_job_metric(name, "Average"))
        for (name, unit), series in graphs.items():
            words = name.replace("_", " ").capitalize()
            title = f"{words} ({unit})" if unit else words
            yield self._graph(title, series, "Average", _MINUTE, from_zero=False)

    def _serving(self) -> Iterator[dict[str, Any]]:
        if self._names.environment.endpoint is None:
            return
        latencies = []
        for statistic in ("p50", "p99"):
            # In microseconds; a line's name is label and metric.
            (line,) = self._endpoint_metric("ModelLatency", statistic)
            latencies.append([{"expression": f"{line['expression']} / 1000", "label": statistic}])
        yield self._graph("Endpoint latency (ms)", latencies, "p99", _MINUTE)
        for title, names in _ANSWERS.items():
            series = [self._endpoint_metric(name, "Sum") for name in names]
            yield self._graph(title, series, "Sum", _MINUTE)

    def _costs(self) -> list[dict[str, Any]]:
        trained = _in_seconds("StepDuration", {"training": self._train}, "Sum")
        training = self._graph("Training time a day (s)", trained, "Sum", _DAY)
        training["properties"]["start"] = _LOOKED_BACK
        failed = self._calls("Errors", PURPOSE, "sweeps that failed")
        return [
            self._graph("Endpoints that exist", self._own(_LEFT), "Maximum"),
            training,
            self._graph("Sweeps", [*self._own({"Sweeps": "sweeps"}), failed], "Sum"),
        ]

    def _graph(
        self,
        title: str,
        series: list[Series],
        statistic: str,
        period_s: int = _QUARTER,
        *,
        from_zero: bool = True,
        legend: str = "bottom",
    ) -> dict[str, Any]:
        properties = {
            "title": title,
            "view": "timeSeries",
            "region": self._names.environment.region,
            "stat": statistic,
            "period": period_s,
            "metrics": series,
            "legend": {"position": legend},
        }
        if from_zero:
            properties["yAxis"] = {"left": {"min": 0}}
        return {"type": "metric", "properties": properties}

    def _endpoint_metric(self, name: str, statistic: str) -> Series:
        where = f"EndpointName={self._names.pipeline}"
        return _search(f'"{_ENDPOINTS}",EndpointName,VariantName', name, where, statistic)


def _in_seconds(name: str, dimensions: Mapping[str, list[str]], statistic: str) -> list[Series]:
    """Return a line for each label, of a metric of pipelines that CloudWatch has in milliseconds.

    An expression divides it; what it reads is hidden.
    """
    series: list[Series] = []
    for number, (label, each) in enumerate(dimensions.items()):
        identity = f"{name[0].lower()}{name[1:]}{number}"
        hidden = {"id": identity, "visible": False, "stat": statistic}
        series.append([PIPELINES, name, *each, hidden])
        series.append([{"expression": f"{identity} / 1000", "label": label}])
    return series


def _job_metric(name: str, statistic: str) -> Series:
    return _search(f'"{_JOBS}",TrainingJobName', name, "TrainingJobName=pipelines", statistic)


def _search(schema: str, name: str, where: str, statistic: str) -> Series:
    """Return an expression that matches parts of the value in `where`.

    In quotes a term would have to match a whole value (CloudWatch user guide).
    """
    query = f'{{{schema}}} MetricName="{name}" {where}'
    return [{"expression": f"SEARCH('{query}', '{statistic}', {_MINUTE})"}]


def _whole_row(y: int, height: int) -> dict[str, int]:
    return {"x": 0, "y": y, "width": _WIDTH * _COLUMNS, "height": height}


def _placed(number: int, widget: dict[str, Any]) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        **widget,
        "x": column * _WIDTH,
        "y": _ALARMS + _NUMBERS + row * _HEIGHT + (_NOTE if row else 0),
        "width": _WIDTH,
        "height": _HEIGHT,
    }
