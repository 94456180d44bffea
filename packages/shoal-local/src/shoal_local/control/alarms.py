"""Alarms on the metrics of endpoints and on what programs publish, evaluated when DescribeAlarms
asks.

The rules are CloudWatch's (user guide, "Using Amazon CloudWatch alarms"): DatapointsToAlarm of the
last EvaluationPeriods, each a statistic over a Period, with TreatMissingData for periods without
data.

A period is divided by the speed of what it watches: of hosting for endpoints, of schedules for
programs, because schedules call those. It ends now, not at a full minute. Alarms on metrics of
AWS's other services keep the state that was set. Nobody is notified of any alarm.
"""

import itertools
import math
import operator
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from moto.cloudwatch.models import Alarm, CloudWatchBackend, MetricDatum, cloudwatch_backends
from moto.core.utils import utcnow

from shoal_local.context import Measurement
from shoal_local.control.http.protocol import ApiCall

RESERVED = "AWS/"
PERCENTILE = re.compile(r"^p(?P<percent>\d{1,2}(\.\d+)?)$")


def keep(account: str, region: str, measurements: Iterable[Measurement]) -> None:
    """Add a service's measurements to the metrics, without infinite values and NaN."""
    backend = cloudwatch_backends[account][region]
    finite = (each for each in measurements if math.isfinite(each.value))
    for namespace, group in itertools.groupby(finite, lambda each: each.namespace):
        backend.put_metric_data(namespace, [each.datum() for each in group])


def nearest_rank(values: Sequence[float], statistic: str) -> float | None:
    """Return the percentile that `statistic` names (`p99`); None for another statistic."""
    match = PERCENTILE.match(statistic)
    if not match:
        return None
    return sorted(values)[max(0, math.ceil(float(match["percent"]) / 100 * len(values)) - 1)]


ENDPOINTS = "AWS/SageMaker"
MIN_PERIOD_S = 1.0
Values = list[float | None]

COMPARISONS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Average": lambda values: sum(values) / len(values),
    "Sum": sum,
    "Minimum": min,
    "Maximum": max,
    "SampleCount": len,
}


class UnreadableError(Exception):
    """The alarm has a statistic or metric math, which is not emulated."""


@dataclass
class Alarms:
    """The alarms of the account in this region.

    The speeds are the seconds of hosting, and of schedules, that pass in a second of the clock.
    """

    account: str
    region: str
    hosting_speed: float
    schedule_speed: float
    _evaluating: threading.Lock = field(default_factory=threading.Lock)

    def guard(self, call: ApiCall) -> None:
        """Bring the states of the alarms up to date that a DescribeAlarms asks for."""
        names = call.parameters.get("AlarmNames")
        with self._evaluating:
            for name, alarm in list(self._kept.alarms.items()):
                if not names or name in names:
                    self._evaluate(alarm)

    @property
    def _kept(self) -> CloudWatchBackend:
        return cloudwatch_backends[self.account][self.region]

    def _evaluate(self, alarm: Alarm) -> None:
        namespace = alarm.namespace if alarm.metric_name else ""
        is_aws = namespace != ENDPOINTS and namespace.startswith(RESERVED)
        if alarm.comparison_operator not in COMPARISONS or is_aws:
            return
        try:
            state, reason = evaluate(alarm, self._values(alarm))
        except UnreadableError as unreadable:
            reason = f"Shoal's emulator cannot evaluate this alarm: {unreadable}"
            state = "INSUFFICIENT_DATA"
        if state != alarm.state_value:
            alarm.update_state(reason, "{}", state)

    def _values(self, alarm: Alarm) -> Values:
        """Return the metric in each of the alarm's periods, the latest first; None without data."""
        if not alarm.metric_name:
            raise UnreadableError("it is on metric math")
        now, count = utcnow(), int(alarm.evaluation_periods)
        speed = self.hosting_speed if alarm.namespace == ENDPOINTS else self.schedule_speed
        period = timedelta(seconds=max(MIN_PERIOD_S, float(alarm.period) / speed))
        statistic = alarm.statistic or alarm.extended_statistic or "Average"
        buckets: list[list[float]] = [[] for _ in range(count)]
        for measured_at, value in self._data(alarm, now - period * count):
            position = int((now - measured_at) / period)
            if 0 <= position < count:
                buckets[position].append(value)
        return [_statistic(statistic, bucket) if bucket else None for bucket in buckets]

    def _data(self, alarm: Alarm, since: datetime) -> Iterator[tuple[datetime, float]]:
        """Yield time and value of the metric's data, the latest first.

        The search ends at data of a service older than `since`: services measure in order of time,
        programs publish in any order.
        """
        key, dimensions = (alarm.namespace, alarm.metric_name), _dimensions(alarm.dimensions)
        for datum in reversed(self._kept.metric_data):
            measured_at = datum.timestamp.replace(tzinfo=None)
            if datum.namespace == alarm.namespace == ENDPOINTS and measured_at < since:
                return
            same = (datum.namespace, datum.name) == key
            same = same and _dimensions(datum.dimensions) == dimensions
            if same and isinstance(datum, MetricDatum):
                yield measured_at, float(datum.value)


def _dimensions(dimensions: Any) -> frozenset[tuple[str, str]]:
    return frozenset((each.name, each.value) for each in dimensions)


def _statistic(name: str, values: Sequence[float]) -> float:
    if name in STATISTICS:
        return float(STATISTICS[name](values))
    percentile = nearest_rank(values, name)
    if percentile is None:
        raise UnreadableError(f"the statistic {name}")
    return percentile


def evaluate(alarm: Alarm, values: Values) -> tuple[str, str]:
    """Return the alarm's state, and the reason in CloudWatch's words."""
    treatment = alarm.treat_missing_data or "missing"
    crosses, comparison = COMPARISONS[alarm.comparison_operator]
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
        f" {was} {comparison} the threshold ({threshold:g}); {needed} make an alarm."
    )
    return state, reason
