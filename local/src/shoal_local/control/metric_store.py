"""The measurements of services, kept where CloudWatch's own operations (GetMetricData, ListMetrics)
find them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from moto.cloudwatch.models import cloudwatch_backends

from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError
from shoal_local.metrics import Measurement

RESERVED = "AWS/"
PERCENTILE = re.compile(r"^p(?P<percent>\d{1,2}(\.\d+)?)$")


def keep(account: str, region: str, measurement: Measurement) -> None:
    """Add a service's measurement to the account's metrics, unless its value is infinite or not a
    number.
    """
    if math.isfinite(measurement.value):
        cloudwatch_backends[account][region].put_metric_data(
            measurement.namespace, [measurement.datum()]
        )


def check_namespace(call: ApiCall) -> None:
    """Raise AwsError for a namespace of AWS (CloudWatch API reference, PutMetricData: "cannot begin
    with AWS/").
    """
    namespace = str(call.parameters.get("Namespace", ""))
    if namespace.startswith(RESERVED):
        raise AwsError(
            "InvalidParameterValue", f"The value {RESERVED} for parameter Namespace is invalid."
        )


def nearest_rank(values: Sequence[float], statistic: str) -> float | None:
    """Return the percentile that `statistic` names (`p99`); None for another statistic."""
    match = PERCENTILE.match(statistic)
    if not match:
        return None
    return sorted(values)[max(0, math.ceil(float(match["percent"]) / 100 * len(values)) - 1)]
