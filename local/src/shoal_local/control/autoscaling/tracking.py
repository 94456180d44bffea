"""Target tracking as a function: what a metric was in its last periods goes in, the wanted number
of instances comes out.

Source: Application Auto Scaling user guide, "How target tracking scaling for Application Auto
Scaling works". It does not say how long a metric must be above or below. One user's report of the
alarms that AWS made for an endpoint with a target of 1500 does: above 1500 for 3 datapoints within
3 minutes, below 1350 for 15 within 15 (repost.aws/questions/QUf450Wsd9RROGGOIwaolN9w); not verified
on AWS. That a metric without data scales nothing is from the user guide, "Target tracking scaling
policies": its alarm has insufficient data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

OUT_PERIODS = 3
IN_PERIODS = 15
IN_FRACTION = 0.9


@dataclass(frozen=True)
class Bounds:
    """MinCapacity and MaxCapacity of the target; `scales_in` is False with DisableScaleIn."""

    least: int
    most: int
    scales_in: bool = True

    def hold(self, count: int) -> int:
        return max(self.least, min(self.most, count))


def wanted(current: int, values: Sequence[float | None], target: float, bounds: Bounds) -> int:
    """Instances for `values` of the metric per instance, the latest first.

    Outside the bounds it comes back into them.
    """
    held = bounds.hold(current)
    if held != current:
        return held
    above, below = _all_there(values[:OUT_PERIODS], OUT_PERIODS), _all_there(values, IN_PERIODS)
    if above and min(above) > target:
        return bounds.hold(math.ceil(current * above[0] / target))
    if below and bounds.scales_in and max(below) < target * IN_FRACTION:
        return bounds.hold(min(current - 1, math.ceil(current * max(below) / target)))
    return current


def _all_there(values: Sequence[float | None], number: int) -> list[float]:
    """The values, if there are as many as that and none is missing."""
    there = [value for value in values if value is not None]
    return there if len(there) == len(values) >= number else []
