"""How a tuning job chooses values: ranges, their scales, and strategies.

Sources: API reference, ParameterRanges, HyperParameterTuningJobConfig; developer guide, "Define
Hyperparameter Ranges" (scales), "How Hyperparameter Tuning Works" (Grid: categorical values only),
"Resource Limits for Automatic Model Tuning" (where AWS raises a limit on request, the raised one).
AWS's searches are not known: Bayesian is optuna's tree-structured Parzen estimator here, and no
seed gives AWS's values.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.shapes import Document

Values = Mapping[str, str]


class Search(Protocol):
    """Chooses values for one training job after the other."""

    def next(self) -> Values | None:
        """Return values, or None if there are no others."""

    def learn(self, values: Values, objective: float | None) -> None:
        """Take the objective that values led to; None for a training job without one."""


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
        if not -math.inf < low < high < math.inf:
            raise invalid(f"The range of {name} needs a MinValue that is less than MaxValue")
        if scale == "Logarithmic" and low <= 0:
            raise invalid(f"Logarithmic scaling of {name} needs values greater than 0")
        if scale == "ReverseLogarithmic" and (is_integer or low < 0 or high >= 1):
            raise invalid(f"Reverse logarithmic scaling of {name} needs values in [0, 1)")
        # AWS chooses the scale where it is Auto; here it is linear.
        return cls(name, low, high, "Linear" if scale == "Auto" else scale, is_integer)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends of the interval in which values lie evenly on the scale."""
        if self.scale == "Logarithmic":
            return math.log(self.low), math.log(self.high)
        if self.scale == "ReverseLogarithmic":
            return -math.log1p(-self.low), -math.log1p(-self.high)
        if self.is_integer:  # each integer has an interval of the same length
            return self.low - 0.499, self.high + 0.499
        return self.low, self.high

    def text(self, point: float) -> str:
        """Return the value at a point between the ends."""
        if self.scale == "Logarithmic":
            point = math.exp(point)
        elif self.scale == "ReverseLogarithmic":
            point = -math.expm1(-point)
        value = min(max(point, self.low), self.high)
        return str(round(value)) if self.is_integer else repr(value)

    def choose(self, source: random.Random) -> str:
        return self.text(source.uniform(*self.ends))

    @property
    def size(self) -> float:
        """Return how many values there are."""
        return self.high - self.low + 1 if self.is_integer else math.inf


@dataclass(frozen=True)
class CategoricalRange:
    """A hyperparameter with a list of values."""

    name: str
    values: tuple[str, ...]

    @classmethod
    def read(cls, document: Document) -> CategoricalRange:
        """Return the range; raise ValidationException for values that it cannot have."""
        name, values = document["Name"], tuple(document["Values"])
        if len(set(values)) < len(values):
            raise invalid(f"The range of {name} has a value more than once")
        return cls(name, values)

    def choose(self, source: random.Random) -> str:
        return source.choice(self.values)

    @property
    def size(self) -> float:
        """Return how many values there are."""
        return len(self.values)


Range = NumberRange | CategoricalRange
MAX_RANGES = 30
_MAX_JOBS: Mapping[str, int] = {"Bayesian": 750, "Random": 10_000, "Grid": 750}
_MAX_PARALLEL = 100
_MAX_RUNTIME_S = 30 * 86_400


def read_ranges(document: Document) -> list[Range]:
    """Return the ranges of ParameterRanges; raise AwsError for none, or for one that is wrong."""
    if document.get("AutoParameters"):
        raise not_emulated("ParameterRanges.AutoParameters")
    ranges: list[Range] = [
        *(NumberRange.read(each, True) for each in document.get("IntegerParameterRanges", [])),
        *(NumberRange.read(each, False) for each in document.get("ContinuousParameterRanges", [])),
        *(CategoricalRange.read(each) for each in document.get("CategoricalParameterRanges", [])),
    ]
    if not ranges:
        raise invalid("At least one hyperparameter range is required")
    if len(ranges) > MAX_RANGES:
        raise invalid(f"{len(ranges)} hyperparameters are searched; at most {MAX_RANGES} can be")
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

    def learn(self, values: Values, objective: float | None) -> None:
        pass


class GridSearch:
    """Every combination of categorical values, once."""

    def __init__(self, ranges: list[Range]) -> None:
        if not all(isinstance(each, CategoricalRange) for each in ranges):
            raise invalid("Grid search takes categorical hyperparameters only")
        lists = [each.values for each in ranges if isinstance(each, CategoricalRange)]
        self.size = math.prod(map(len, lists))
        self._combinations: Iterator[tuple[str, ...]] = itertools.product(*lists)
        self._names = [each.name for each in ranges]

    def next(self) -> Values | None:
        combination = next(self._combinations, None)
        return None if combination is None else dict(zip(self._names, combination, strict=True))

    def learn(self, values: Values, objective: float | None) -> None:
        pass


class BayesianSearch:
    """Values that optuna expects to be better than those it has learned of."""

    def __init__(self, ranges: list[Range], seed: int | None, is_maximum: bool) -> None:
        try:
            import optuna  # slow to import, and not installed with shoal-local alone
        except ImportError:
            raise not_emulated(
                "the tuning strategy Bayesian without optuna (pip install 'shoal-local[tuning]')"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._ranges = ranges
        self._space: dict[str, Any] = {
            each.name: optuna.distributions.CategoricalDistribution(each.values)
            if isinstance(each, CategoricalRange)
            else optuna.distributions.FloatDistribution(*each.ends)
            for each in ranges
        }
        # constant_liar: values that are being tried count as bad ones, so that jobs differ
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        directions = optuna.study.StudyDirection
        direction = directions.MAXIMIZE if is_maximum else directions.MINIMIZE
        self._study = optuna.create_study(direction=direction, sampler=sampler)
        self._failed = optuna.trial.TrialState.FAIL
        self._trials: list[tuple[Values, Any]] = []

    def next(self) -> Values | None:
        trial = self._study.ask(self._space)
        values = {
            each.name: str(trial.params[each.name])
            if isinstance(each, CategoricalRange)
            else each.text(trial.params[each.name])
            for each in self._ranges
        }
        self._trials.append((values, trial))
        return values

    def learn(self, values: Values, objective: float | None) -> None:
        trial = next(each for chosen, each in self._trials if chosen is values)
        if objective is None or not math.isfinite(objective):
            self._study.tell(trial, state=self._failed)
        else:
            self._study.tell(trial, objective)


_STRATEGIES = ("Bayesian", "Random", "Grid")


def search_for(config: Document) -> tuple[Search, int]:
    """Return the search of a tuning job and the number of its training jobs; raise AwsError."""
    strategy, limits = config["Strategy"], config["ResourceLimits"]
    if strategy not in _STRATEGIES:
        raise not_emulated(f"the tuning strategy {strategy}; it has {', '.join(_STRATEGIES)}")
    ranges, seed = read_ranges(config.get("ParameterRanges", {})), config.get("RandomSeed")
    count = limits.get(_COUNT)
    if strategy == "Grid":
        grid = GridSearch(ranges)
        _check_limits(strategy, limits, grid.size)
        if count not in {None, grid.size}:
            raise invalid(f"{_COUNT} of this grid must be {grid.size}, or left out")
        return grid, grid.size
    if count is None:
        raise invalid(f"{_COUNT} is required for the strategy {strategy}")
    _check_limits(strategy, limits, int(count))
    combinations = float(math.prod(each.size for each in ranges))
    if (
        combinations < count
    ):  # worded as users report it (aws/amazon-sagemaker-operator-for-k8s 123)
        raise invalid(
            "You don't have enough combinations of hyperparameter ranges. The total number of"
            f" hyperparameter combinations for the provided ranges [{combinations}] must be equal"
            f" or greater than the value of MaxNumberOfJobs, [{count}]. Provide additional ranges."
        )
    if strategy == "Random":
        return RandomSearch(ranges, seed), int(count)
    is_maximum = config.get("HyperParameterTuningJobObjective", {}).get("Type") == "Maximize"
    return BayesianSearch(ranges, seed, is_maximum), int(count)


def _check_limits(strategy: str, limits: Document, count: int) -> None:
    """Raise ValidationException for more than a tuning job may have."""
    for name, value, max_value in (
        (_COUNT, count, _MAX_JOBS[strategy]),
        ("MaxParallelTrainingJobs", limits["MaxParallelTrainingJobs"], _MAX_PARALLEL),
        ("MaxRuntimeInSeconds", limits.get("MaxRuntimeInSeconds", 0), _MAX_RUNTIME_S),
    ):
        if value > max_value:
            raise invalid(f"{name} of a {strategy} search is at most {max_value}, not {value}")


_COUNT = "MaxNumberOfTrainingJobs"
