"""The measurements of services, kept where CloudWatch's own operations (GetMetricData, ListMetrics)
find them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence

from moto.cloudwatch.models import cloudwatch_backends

from shoal_local.metrics import Measurement

RESERVED = "AWS/"
PERCENTILE = re.compile(r"^p(?P<percent>\d{1,2}(\.\d+)?)$")


def keep(account: str, region: str, measurements: Iterable[Measurement]) -> None:
    """Add a service's measurements to the account's metrics, without values that are infinite or
    not a number.
    """
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
