"""Alarms on the metrics of endpoints and on what programs publish, evaluated when DescribeAlarms
asks.

The rules are CloudWatch's (user guide, "Using Amazon CloudWatch alarms"): DatapointsToAlarm of the
last EvaluationPeriods, each a statistic over a Period, with TreatMissingData for periods without
data.

A period is divided by the speed of what it watches: of hosting for endpoints, of schedules for
programs, because schedules call those. It ends now, not at a full minute. Alarms on metrics of
AWS's other services keep the state that was set. Nobody is notified of any alarm.
"""

from __future__ import annotations

import ast
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from moto.cloudwatch.models import Alarm, MetricDatum, cloudwatch_backends
from moto.core.utils import utcnow

from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.metrics.metric_store import RESERVED, nearest_rank

ENDPOINTS = "AWS/SageMaker"
MIN_PERIOD_S = 1.0
Values = list[float | None]

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Average": lambda values: sum(values) / len(values),
    "Sum": sum,
    "Minimum": min,
    "Maximum": max,
    "SampleCount": len,
}
_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


class UnreadableError(Exception):
    """The alarm has an expression or statistic that is not emulated."""


@dataclass(frozen=True)
class Metric:
    """A metric, and the statistic of it over each period."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]
    statistic: str
    period_s: float


class Alarms:
    """The alarms of the account in this region.

    The speeds are the seconds of hosting, and of schedules, that pass in a second of the clock.
    """

    def __init__(
        self, account: str, region: str, hosting_speed: float, schedule_speed: float
    ) -> None:
        self._account, self._region = account, region
        self._hosting_speed, self._schedule_speed = hosting_speed, schedule_speed
        self._evaluating = threading.Lock()

    def guard(self, call: ApiCall) -> None:
        """Bring the states of the alarms up to date that a DescribeAlarms asks for."""
        names = call.parameters.get("AlarmNames")
        with self._evaluating:
            for name, alarm in list(
                cloudwatch_backends[self._account][self._region].alarms.items()
            ):
                if not names or name in names:
                    self._evaluate(alarm)

    def _evaluate(self, alarm: Alarm) -> None:
        metrics = _metrics(alarm)
        if (
            not metrics
            or not all(map(_is_evaluated, metrics.values()))
            or alarm.comparison_operator not in COMPARISONS
        ):
            return
        try:
            values = self._values(alarm, metrics)
        except UnreadableError as unreadable:
            _set(
                alarm,
                "INSUFFICIENT_DATA",
                f"Shoal's emulator cannot evaluate this alarm: {unreadable}",
            )
            return
        state, reason = evaluate(alarm, values)
        _set(alarm, state, reason)

    def _values(self, alarm: Alarm, metrics: Mapping[str, Metric]) -> Values:
        """Return the alarm's value in each of its periods, the latest first."""
        count = int(alarm.evaluation_periods)
        series_by_id = {id_: self.series(metric, count) for id_, metric in metrics.items()}
        if not alarm.metric_data_queries:
            return series_by_id[""]
        expressions = [each for each in alarm.metric_data_queries if each.expression]
        if not expressions:
            return next(iter(series_by_id.values()))
        if len(expressions) > 1:
            raise UnreadableError("it has more than one expression")
        tree = _parse(str(expressions[0].expression))
        return [
            _calculate(tree, {id_: series[position] for id_, series in series_by_id.items()})
            for position in range(count)
        ]

    def series(self, metric: Metric, count: int) -> Values:
        """Return the metric in each of its last `count` periods, the latest first; None where it
        has no data.
        """
        now = utcnow()
        speed = self._hosting_speed if metric.namespace == ENDPOINTS else self._schedule_speed
        period = timedelta(seconds=max(MIN_PERIOD_S, metric.period_s / speed))
        buckets: list[list[float]] = [[] for _ in range(count)]
        for measured_at, value in self._data(metric, now - period * count):
            position = int((now - measured_at) / period)
            if 0 <= position < count:
                buckets[position].append(value)
        return [_statistic(metric.statistic, bucket) if bucket else None for bucket in buckets]

    def _data(self, metric: Metric, since: datetime) -> Iterator[tuple[datetime, float]]:
        """Yield time and value of the metric's data, the latest first.

        The search ends at data of a service older than `since`: services measure in order of time,
        programs publish in any order.
        """
        for datum in reversed(cloudwatch_backends[self._account][self._region].metric_data):
            measured_at = datum.timestamp.replace(tzinfo=None)
            if datum.namespace == metric.namespace == ENDPOINTS and measured_at < since:
                return
            same = (datum.namespace, datum.name) == (metric.namespace, metric.name) and _dimensions(
                datum.dimensions
            ) == metric.dimensions
            if same and isinstance(datum, MetricDatum):
                yield measured_at, float(datum.value)


def _is_evaluated(metric: Metric) -> bool:
    return metric.namespace == ENDPOINTS or not metric.namespace.startswith(RESERVED)


def _dimensions(dimensions: Any) -> frozenset[tuple[str, str]]:
    return frozenset((each.name, each.value) for each in dimensions)


def _metrics(alarm: Alarm) -> dict[str, Metric]:
    """Return the metrics by their ids in the alarm's expression; the id is "" where there is no
    expression.
    """
    if alarm.metric_name:
        name, statistic = (
            alarm.metric_name,
            alarm.statistic or alarm.extended_statistic or "Average",
        )
        return {
            "": Metric(
                alarm.namespace, name, _dimensions(alarm.dimensions), statistic, float(alarm.period)
            )
        }
    return {
        each.id: Metric(
            each.metric_stat.metric.namespace,
            each.metric_stat.metric.metric_name,
            _dimensions(each.metric_stat.metric.dimensions),
            each.metric_stat.stat,
            float(each.metric_stat.period),
        )
        for each in alarm.metric_data_queries
        if each.metric_stat
    }


def _statistic(name: str, values: Sequence[float]) -> float:
    if name in STATISTICS:
        return float(STATISTICS[name](values))
    percentile = nearest_rank(values, name)
    if percentile is None:
        raise UnreadableError(f"the statistic {name}")
    return percentile


def _parse(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise UnreadableError(f"the expression {expression}") from error


def _calculate(tree: ast.AST, values: Mapping[str, float | None]) -> float | None:
    """Return the metric math of one period: arithmetic, comparisons, IF and FILL.

    None where a metric has no data, or is divided by 0.
    """
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
        return float(tree.value)
    if isinstance(tree, ast.Name) and tree.id in values:
        return values[tree.id]
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return _call(tree.func.id, [_calculate(each, values) for each in tree.args])
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _apply(type(tree.op), _calculate(tree.left, values), _calculate(tree.right, values))
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _OPERATORS:
        return _apply(
            type(tree.ops[0]),
            _calculate(tree.left, values),
            _calculate(tree.comparators[0], values),
        )
    raise UnreadableError(f"the expression {ast.unparse(tree)}")


def _apply(kind: type[ast.AST], left: float | None, right: float | None) -> float | None:
    if left is None or right is None or (kind is ast.Div and right == 0):
        return None
    return float(_OPERATORS[kind](left, right))


def _call(name: str, arguments: Values) -> float | None:
    if name == "FILL" and len(arguments) == 2:
        return arguments[1] if arguments[0] is None else arguments[0]
    if name == "IF" and len(arguments) in {2, 3}:
        otherwise = arguments[2] if len(arguments) == 3 else None
        return None if arguments[0] is None else arguments[1] if arguments[0] else otherwise
    raise UnreadableError(f"the function {name} of {len(arguments)} arguments")


def evaluate(alarm: Alarm, values: Values) -> tuple[str, str]:
    """Return the alarm's state, and the reason in CloudWatch's words."""
    treatment = alarm.treat_missing_data or "missing"
    crosses = COMPARISONS[alarm.comparison_operator]
    threshold = float(alarm.threshold)
    needed = int(alarm.datapoints_to_alarm or alarm.evaluation_periods)
    data = [value for value in values if value is not None]
    if not data and treatment == "missing":
        return "INSUFFICIENT_DATA", f"Insufficient Data: {len(values)} datapoints were unknown."
    if not data and treatment == "ignore":
        return alarm.state_value, alarm.state_reason
    crossing = [value for value in data if crosses(value, threshold)]
    number = len(crossing) + (len(values) - len(data) if treatment == "breaching" else 0)
    data_text = ", ".join(f"{value:g}" for value in data) or "none"
    state = "ALARM" if number >= needed else "OK"
    was = "were" if state == "ALARM" else "were not enough of"
    reason = (
        f"Threshold Crossed: {number} out of the last {len(values)} datapoints [{data_text}]"
        f" {was} {_threshold_text(alarm, threshold, needed)}"
    )
    return state, reason


def _threshold_text(alarm: Alarm, threshold: float, needed: int) -> str:
    words = {"GreaterThan": "greater than", "LessThan": "less than"}
    comparison = next(
        phrase for kind, phrase in words.items() if alarm.comparison_operator.startswith(kind)
    )
    equal = " or equal to" if "OrEqual" in alarm.comparison_operator else ""
    return f"{comparison}{equal} the threshold ({threshold:g}); {needed} make an alarm."


def _set(alarm: Alarm, state: str, reason: str) -> None:
    if state != alarm.state_value:
        alarm.update_state(reason, "{}", state)
