"""The section `evaluation`: the job that measures the trained model, where it runs, and the gates
behind it; and the metrics that CloudWatch reads from the log lines of a training job.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from shoal.settings.capacity import EvaluationCapacity, of_first
from shoal.settings.hyperparameters import parameter_name
from shoal.settings.parsing.base import InstanceType, Settings
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.channels import EVALUATED, ChannelName

LogMetricName = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*(:[a-z][a-z0-9]*(_[a-z0-9]+)*)?$", max_length=255),
]
MAX_METRICS = 30
"""Of the 40 that a training job may define (botocore 1.44.5, MetricDefinitionList; read); Shoal
adds its own.
"""

MetricName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=24)]

MAX_BOUNDS = 4
"""Each takes up to 60 of the 256 characters of a value in CustomerMetadataProperties (botocore
1.44.5, CustomerMetadataValue; read).
"""


class Direction(StrEnum):
    """Which of two values of a metric is the better one."""

    HIGHER = "higher"
    LOWER = "lower"


class Metric(Settings):
    """A number in the log lines of rank 0."""

    regex: Annotated[str, Field(min_length=1, max_length=500)]
    """Regular expression with one group, which is the number in a line's first 1,000 characters."""
    unit: Annotated[str, Field(max_length=20)] = ""
    """What the number counts, as in rows/s."""
    direction: Direction | None = None
    """Which values are better; a gate `not_worse_than` of the same name needs it."""
    progress: bool = False
    """Whether a training is followed by this number: `shoal run --follow` and reports show it.

    Where none is marked, all are.
    """
    note: Annotated[str, Field(max_length=100)] = ""
    """What a reader of its curve should know; the demo writes it beside the curve."""


class Gate(Settings):
    """What one number of evaluation.json must be for the model to be registered."""

    metric: MetricName
    """Name of the metric: the number at `metrics.NAME.value` in evaluation.json."""
    at_least: float | None = None
    """The smallest number that passes."""
    at_most: float | None = None
    """The largest number that passes."""
    not_worse_than: Literal["approved"] | None = None
    """Compare with the newest approved version in the registry, when the pipeline runs. While there
    is none, or its entry lacks the number, every number passes.
    """
    by: Annotated[float, Field(ge=0)] | None = None
    """How much worse than the approved version still passes; left out, 0."""
    direction: Direction | None = None
    """Which numbers are better, for `not_worse_than`; left out, as in `metrics`, at the entry whose
    name, or its part behind the colon, is the gate's metric.
    """


@dataclass(frozen=True)
class Bound:
    """One side of a gate, which is one condition and one parameter of the pipeline."""

    metric: str
    kind: Literal["at least", "at most", "not worse than approved"]
    value: float
    """The limit, or how much worse than the approved version still passes."""

    @property
    def parameter(self) -> str:
        """Return the parameter that changes it for one execution: `MinR2`, `RmseTolerance`."""
        if self.kind == "not worse than approved":
            return parameter_name(f"{self.metric}_tolerance")
        return parameter_name(f"{'min' if self.kind == 'at least' else 'max'}_{self.metric}")


def bounds(gates: tuple[Gate, ...]) -> Iterator[Bound]:
    """Yield every side of every gate, in the order of the file."""
    for gate in gates:
        if gate.at_least is not None:
            yield Bound(gate.metric, "at least", gate.at_least)
        if gate.at_most is not None:
            yield Bound(gate.metric, "at most", gate.at_most)
        if gate.not_worse_than:
            yield Bound(gate.metric, "not worse than approved", gate.by or 0.0)


def directions(gates: tuple[Gate, ...], metrics: Mapping[str, Metric]) -> dict[str, Direction]:
    """Return the metrics that are compared with the approved version, and what is better."""
    return {
        gate.metric: direction
        for gate in gates
        if gate.not_worse_than and (direction := _direction(gate, metrics))
    }


def _direction(gate: Gate, metrics: Mapping[str, Metric]) -> Direction | None:
    """Return None where no metric of the gate's name says it, or two say different things."""
    stated = {
        metric.direction
        for name, metric in metrics.items()
        if metric.direction and name.rpartition(":")[2] == gate.metric
    }
    return gate.direction or (stated.pop() if len(stated) == 1 else None)


_SHARES = ("acc", "auc", "auroc", "f1", "iou", "precision", "r2", "recall")
"""How the names of metrics begin that are from 0 to 1."""


def metric_problems(metrics: Mapping[str, Metric], where: str) -> Iterator[Problem]:
    """Yield what is wrong with metrics, which stand at the key `where`."""
    if len(metrics) > MAX_METRICS:
        yield Problem(where, f"has {len(metrics)} metrics", f"keep at most {MAX_METRICS}")
    for name, metric in metrics.items():
        key = f"{where}.{name}.regex"
        try:
            groups = re.compile(metric.regex).groups
        except (re.error, OverflowError, RecursionError) as error:
            yield Problem(key, f"is no regular expression: {error}", "correct it")
            continue
        if groups != 1:
            message = f"has {groups} groups, and the one is the number"
            yield Problem(key, message, "write (?:...) for groups that are not")


def risks(gates: tuple[Gate, ...]) -> Iterator[str]:
    """Yield the limits that no share can pass: 98 where 0.98 is meant."""
    for gate in gates:
        limit = gate.at_least
        is_share = any(word.startswith(_SHARES) for word in gate.metric.split("_"))
        if limit is not None and limit > 1 and is_share and "percent" not in gate.metric:
            yield (
                f"evaluation.gates: {gate.metric} at_least {limit:g}: such a metric is mostly a"
                f" share from 0 to 1; {limit:g} % is {limit / 100:g}"
            )


def problems_of(
    gates: tuple[Gate, ...], where: str, metrics: Mapping[str, Metric]
) -> Iterator[Problem]:
    """Yield what is wrong between the keys of gates, which stand at the key `where`."""
    for index, gate in enumerate(gates):
        key = f"{where}[{index}]"
        if gate.not_worse_than and not _direction(gate, metrics):
            message = f"does not say whether a higher or a lower {gate.metric} is better"
            advice = "add `direction: higher` or `direction: lower`, here or in `metrics`"
            yield Problem(key, message, advice)
        for name, value in (("by", gate.by), ("direction", gate.direction)):
            if value is not None and not gate.not_worse_than:
                message = "is only read with `not_worse_than`"
                advice = "add `not_worse_than: approved`, or remove it"
                yield Problem(f"{key}.{name}", message, advice)
        if gate.at_least is None and gate.at_most is None and not gate.not_worse_than:
            advice = "give it `at_least`, `at_most`, or `not_worse_than: approved`"
            yield Problem(key, "lets everything pass", advice)
        else:
            yield from empty_range(key, gate.at_least, gate.at_most)
    sides = [(bound.metric, bound.kind) for bound in bounds(gates)]
    if len(sides) > MAX_BOUNDS:
        message = f"have {len(sides)} limits; the registry's entry has room for {MAX_BOUNDS}"
        yield Problem(where, message, "keep those that decide")
    for (metric, kind), count in Counter(sides).items():
        if count > 1:
            message = f"{count} gates say what {metric} is {kind}"
            yield Problem(where, message, "keep one of them")


def empty_range(key: str, at_least: float | None, at_most: float | None) -> Iterator[Problem]:
    """Yield a problem if no number is in the range."""
    if at_least is not None and at_most is not None and at_least > at_most:
        message = f"no number is at least {at_least:g} and at most {at_most:g}"
        yield Problem(key, message, "correct one of the two")


class Evaluation(Settings):
    """The processing job that measures the trained model, and the gates behind it."""

    entry_point: str = "evaluate.py"
    """Script in the training source_dir that writes evaluation.json."""
    capacity: EvaluationCapacity = EvaluationCapacity()
    """Where the instance comes from."""
    instance_type: InstanceType = of_first("instance_type", "ml.m5.xlarge")
    """SageMaker instance type of the processing job; left out, the first of capacity.preferences.
    """
    image_uri: str | None = None
    """Full image URI (with tag or digest) instead of AWS's image of the framework; it needs bash,
    tar and python3.
    """
    image_of: Literal["training", "endpoint"] | None = None
    """Measure in the image that is built there (build_image): AWS's may lack its packages."""
    channel: ChannelName = EVALUATED
    """The channel that the job reads; its script gets the folder as `--test-dir`."""
    max_runtime_s: Annotated[int, Field(ge=60, le=432_000)] = 1800
    """The job is stopped after this many seconds."""
    gates: Annotated[tuple[Gate, ...], Field(min_length=1)] = Field(default_factory=tuple)
    """What numbers of evaluation.json must be; else the model is not registered, and the execution
    fails. Left out, those of the workload's file.
    """

    @property
    def candidates(self) -> tuple[str, ...]:
        """Return the instance types that the job may get."""
        listed = tuple(each.instance_type for each in self.capacity.preferences)
        return listed or (self.instance_type,)
