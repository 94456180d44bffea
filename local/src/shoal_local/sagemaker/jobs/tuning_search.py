"""How a tuning job chooses values: ranges, their scales, and the strategies Random and Grid.

Sources: API reference, ParameterRanges, HyperParameterTuningJobConfig; developer guide, "Define
Hyperparameter Ranges" (scales) and "How Hyperparameter Tuning Works" (Grid: categorical values
only). AWS's generator is not known, so the values of a seed are not AWS's.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.shapes import Document

Values = Mapping[str, str]


@dataclass(frozen=True)
class NumberRange:
    """An integer or continuous range; `scale` is Linear, Logarithmic or ReverseLogarithmic."""

    name: str
    low: float
    high: float
    scale: str
    is_integer: bool

    @classmethod
    def read(cls, document: Document, is_integer: bool) -> NumberRange:
        """Return the range; raise ValidationException if it has no values."""
        name, scale = document["Name"], document.get("ScalingType", "Auto")
        try:
            low, high = (
                (int if is_integer else float)(document[key]) for key in ("MinValue", "MaxValue")
            )
        except ValueError:
            raise invalid(f"The range of {name} has a bound that is no number") from None
        if not -math.inf < low <= high < math.inf:
            raise invalid(f"The range of {name} needs a MinValue that is at most MaxValue")
        if scale == "Logarithmic" and low <= 0:
            raise invalid(f"Logarithmic scaling of {name} needs values greater than 0")
        if scale == "ReverseLogarithmic" and (is_integer or low < 0 or high >= 1):
            raise invalid(f"Reverse logarithmic scaling of {name} needs values in [0, 1)")
        # AWS chooses the scale where it is Auto; here it is linear.
        return cls(name, low, high, "Linear" if scale == "Auto" else scale, is_integer)

    def choose(self, source: random.Random) -> str:
        """Return a value, drawn evenly on the scale."""
        if self.scale == "ReverseLogarithmic":
            return repr(1 - math.exp(source.uniform(math.log1p(-self.high), math.log1p(-self.low))))
        if self.scale == "Logarithmic":
            value = math.exp(source.uniform(math.log(self.low), math.log(self.high)))
        elif self.is_integer:
            return str(source.randint(int(self.low), int(self.high)))
        else:
            value = source.uniform(self.low, self.high)
        value = min(max(value, self.low), self.high)
        return str(round(value)) if self.is_integer else repr(value)


@dataclass(frozen=True)
class CategoricalRange:
    """A hyperparameter with a list of values."""

    name: str
    values: tuple[str, ...]

    def choose(self, source: random.Random) -> str:
        return source.choice(self.values)


Range = NumberRange | CategoricalRange


def read_ranges(document: Document) -> list[Range]:
    """Return the ranges of ParameterRanges; raise AwsError for none, or for one that is wrong."""
    if document.get("AutoParameters"):
        raise not_emulated("ParameterRanges.AutoParameters")
    ranges: list[Range] = [
        *(NumberRange.read(each, True) for each in document.get("IntegerParameterRanges", [])),
        *(NumberRange.read(each, False) for each in document.get("ContinuousParameterRanges", [])),
        *(
            CategoricalRange(each["Name"], tuple(each["Values"]))
            for each in document.get("CategoricalParameterRanges", [])
        ),
    ]
    if not ranges:
        raise invalid("At least one hyperparameter range is required")
    names = [each.name for each in ranges]
    if len(set(names)) < len(names):
        raise invalid(f"Hyperparameters have several ranges: {sorted(names)}")
    return ranges


class RandomSearch:
    """Values at random, drawn evenly on each scale."""

    def __init__(self, ranges: list[Range], seed: int | None) -> None:
        self._ranges, self._source = ranges, random.Random(seed)  # noqa: S311 (no secret)

    def next(self) -> Values | None:
        return {each.name: each.choose(self._source) for each in self._ranges}


class GridSearch:
    """Every combination of categorical values, once."""

    def __init__(self, ranges: list[Range], seed: int | None) -> None:
        del seed
        if not all(isinstance(each, CategoricalRange) for each in ranges):
            raise invalid("Grid search takes categorical hyperparameters only")
        lists = [each.values for each in ranges if isinstance(each, CategoricalRange)]
        self.size = math.prod(map(len, lists))
        self._combinations: Iterator[tuple[str, ...]] = itertools.product(*lists)
        self._names = [each.name for each in ranges]

    def next(self) -> Values | None:
        combination = next(self._combinations, None)
        return None if combination is None else dict(zip(self._names, combination, strict=True))


Search = RandomSearch | GridSearch
_STRATEGIES: Mapping[str, Callable[[list[Range], int | None], Search]] = {
    "Random": RandomSearch,
    "Grid": GridSearch,
}


def search_for(config: Document) -> tuple[Search, int]:
    """Return the search of a tuning job and the number of its training jobs; raise AwsError."""
    strategy, limits = config["Strategy"], config["ResourceLimits"]
    if strategy not in _STRATEGIES:
        raise not_emulated(f"the tuning strategy {strategy}; it has {', '.join(_STRATEGIES)}")
    ranges = read_ranges(config.get("ParameterRanges", {}))
    search, count = _STRATEGIES[strategy](ranges, config.get("RandomSeed")), limits.get(_COUNT)
    if isinstance(search, GridSearch):
        if count not in {None, search.size}:
            raise invalid(f"{_COUNT} of this grid must be {search.size}, or left out")
        return search, search.size
    if count is None:
        raise invalid(f"{_COUNT} is required for the strategy {strategy}")
    return search, int(count)


_COUNT = "MaxNumberOfTrainingJobs"
