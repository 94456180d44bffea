"""A measurement of a service inside the emulator, as CloudWatch keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """A value of a metric, measured now.

    `unit` is CloudWatch's word for it: Count, Milliseconds, Microseconds, None ...
    """

    namespace: str
    name: str
    value: float
    unit: str = "None"
    dimensions: Mapping[str, str] = field(default_factory=dict)

    def datum(self) -> dict[str, Any]:
        """Return the measurement as a member of PutMetricData's MetricData."""
        return {
            "MetricName": self.name,
            "Value": self.value,
            "Unit": self.unit,
            "Dimensions": [
                {"Name": name, "Value": value} for name, value in self.dimensions.items()
            ],
        }


Measure = Callable[[Iterable[Measurement]], None]
