"""How a tuning job chooses hyperparameters: Random, Grid, and Bayesian by optuna.

Sources: API reference, ParameterRanges, HyperParameterTuningJobConfig; developer guide, "Define
Hyperparameter Ranges" (scales), "How Hyperparameter Tuning Works" (Grid: categorical values only).
AWS's searches are not known: Bayesian is optuna's tree-structured Parzen estimator here, and no
seed gives AWS's values. AWS's quotas are not asked for.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
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

    def choose(self, source: random.Random) -> str:
        return source.choice(self.values)

    @property
    def size(self) -> float:
        """Return how many values there are."""
        return len(self.values)


Range = NumberRange | CategoricalRange


def read_ranges(document: Document) -> list[Range]:
    """Return the ranges of ParameterRanges; raise AwsError for none, or for one that is wrong."""
    ranges: list[Range] = [
        *(NumberRange.read(each, True) for each in document.get("IntegerParameterRanges", [])),
        *(NumberRange.read(each, False) for each in document.get("ContinuousParameterRanges", [])),
        *(
            CategoricalRange(each["Name"], tuple(dict.fromkeys(each["Values"])))
            for each in document.get("CategoricalParameterRanges", [])
        ),
    ]
    if not ranges:
        raise invalid("At least one hyperparameter range is required")
    return ranges


class RandomSearch:
    """Values at random, drawn evenly on each scale."""

    def __init__(self, ranges: list[Range], seed: int | None) -> None:
        self._ranges, self._source = ranges, random.Random(seed)  # noqa: S311 (no secret)

    def next(self) -> Values | None:
        return {each.name: each.choose(self._source) for each in self._ranges}

    def learn(self, values: Values, objective: float | None) -> None:
        """Learn nothing."""


class GridSearch:
    """Every combination of categorical values, once."""

    def __init__(self, ranges: list[Range]) -> None:
        categorical = [each for each in ranges if isinstance(each, CategoricalRange)]
        if len(categorical) < len(ranges):
            raise invalid("Grid search takes categorical hyperparameters only")
        combinations = itertools.product(*(each.values for each in categorical))
        names = [each.name for each in ranges]
        self._left = iter([dict(zip(names, each, strict=True)) for each in combinations])

    def next(self) -> Values | None:
        return next(self._left, None)

    def learn(self, values: Values, objective: float | None) -> None:
        """Learn nothing."""


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


def search_for(config: Document) -> tuple[Search, int]:
    """Return the search of a tuning job and the number of its training jobs; raise AwsError."""
    strategy, key = config["Strategy"], "MaxNumberOfTrainingJobs"
    if strategy not in {"Bayesian", "Random", "Grid"}:
        raise not_emulated(f"the tuning strategy {strategy}; it has Bayesian, Random, Grid")
    ranges, seed = read_ranges(config.get("ParameterRanges", {})), config.get("RandomSeed")
    count, combinations = config["ResourceLimits"].get(key), math.prod(each.size for each in ranges)
    if strategy == "Grid":
        grid = GridSearch(ranges)
        if count not in {None, combinations}:
            raise invalid(f"{key} of this grid must be {combinations}, or left out")
        return grid, int(combinations)
    if count is None:
        raise invalid(f"{key} is required for the strategy {strategy}")
    # worded as users report it (aws/amazon-sagemaker-operator-for-k8s 123)
    if combinations < count:
        raise invalid(
            "You don't have enough combinations of hyperparameter ranges. The total number of"
            f" hyperparameter combinations for the provided ranges [{float(combinations)}] must be"
            f" equal or greater than the value of MaxNumberOfJobs, [{count}]. Provide additional"
            " ranges."
        )
    if strategy == "Random":
        return RandomSearch(ranges, seed), int(count)
    is_maximum = config.get("HyperParameterTuningJobObjective", {}).get("Type") == "Maximize"
    return BayesianSearch(ranges, seed, is_maximum), int(count)
