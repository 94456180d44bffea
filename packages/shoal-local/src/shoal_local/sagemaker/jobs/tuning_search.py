"""How a tuning job chooses hyperparameters: by optuna, for Random, Grid and Bayesian.

Sources: API reference, ParameterRanges, HyperParameterTuningJobConfig; developer guide, "Define
Hyperparameter Ranges" (scales), "How Hyperparameter Tuning Works" (Grid: categorical values only).
AWS's searches are not known: Bayesian is a tree-structured Parzen estimator here, and no seed gives
AWS's values. AWS's quotas are not asked for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.shapes import Document

Values = Mapping[str, str]


@dataclass(frozen=True)
class Range:
    """The values of one hyperparameter: `choices`, or else the numbers from `low` to `high`."""

    name: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    is_integer: bool = False
    is_logarithmic: bool = False

    @property
    def size(self) -> float:
        """Return how many values there are."""
        if self.choices:
            return len(self.choices)
        return self.high - self.low + 1 if self.is_integer else math.inf

    def distribution(self, optuna: Any) -> Any:
        """Return the range as optuna has it."""
        kinds = optuna.distributions
        if self.choices:
            return kinds.CategoricalDistribution(self.choices)
        kind = kinds.IntDistribution if self.is_integer else kinds.FloatDistribution
        return kind(self.low, self.high, log=self.is_logarithmic)


def read_ranges(document: Document) -> list[Range]:
    """Return the ranges of ParameterRanges; raise AwsError for none, or for one that is wrong."""
    ranges = [
        *(_numbers(each, True) for each in document.get("IntegerParameterRanges", [])),
        *(_numbers(each, False) for each in document.get("ContinuousParameterRanges", [])),
        *(
            Range(each["Name"], tuple(dict.fromkeys(each["Values"])))
            for each in document.get("CategoricalParameterRanges", [])
        ),
    ]
    if not ranges:
        raise invalid("At least one hyperparameter range is required")
    return ranges


def _numbers(document: Document, is_integer: bool) -> Range:
    """Return a range of numbers; raise AwsError if it has none.

    AWS chooses the scale where it is Auto; here it is linear.
    """
    name, scale = document["Name"], document.get("ScalingType", "Auto")
    read = int if is_integer else float
    try:
        low, high = read(document["MinValue"]), read(document["MaxValue"])
    except ValueError:
        raise invalid(f"The range of {name} has a bound that is no number") from None
    if not -math.inf < low < high < math.inf:
        raise invalid(f"The range of {name} needs a MinValue that is less than MaxValue")
    if scale == "Logarithmic" and low <= 0:
        raise invalid(f"Logarithmic scaling of {name} needs values greater than 0")
    return Range(name, (), low, high, is_integer, scale == "Logarithmic")


class Search:
    """Chooses values for one training job after the other; not safe for several threads."""

    def __init__(self, config: Document, ranges: list[Range]) -> None:
        try:
            import optuna  # slow to import, and not installed with shoal-local alone
        except ImportError:
            raise not_emulated(
                "tuning jobs without optuna (pip install 'shoal-local[tuning]')"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        seed = config.get("RandomSeed")
        is_maximum = config.get("HyperParameterTuningJobObjective", {}).get("Type") == "Maximize"
        sampler: Any = optuna.samplers.RandomSampler(seed)
        if config["Strategy"] == "Bayesian":
            # constant_liar: values that are being tried count as bad ones, so that jobs differ
            sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        self._study = optuna.create_study(
            direction="maximize" if is_maximum else "minimize", sampler=sampler
        )
        self._space = {each.name: each.distribution(optuna) for each in ranges}
        self._failed = optuna.trial.TrialState.FAIL
        if config["Strategy"] == "Grid":
            for values in itertools.product(*(each.choices for each in ranges)):
                self._study.enqueue_trial(dict(zip(self._space, values, strict=True)))

    def next(self) -> tuple[int, Values]:
        """Return the values of another training job, and the number by which to learn of it."""
        trial = self._study.ask(self._space)
        return trial.number, {name: str(value) for name, value in trial.params.items()}

    def learn(self, number: int, objective: float | None) -> None:
        """Take the objective that values led to; None for a training job without one."""
        if objective is None or not math.isfinite(objective):
            self._study.tell(number, state=self._failed)
        else:
            self._study.tell(number, objective)


def search_for(config: Document) -> tuple[Search, int]:
    """Return the search of a tuning job and the number of its training jobs; raise AwsError."""
    strategy, key = config["Strategy"], "MaxNumberOfTrainingJobs"
    count, ranges = (
        config["ResourceLimits"].get(key),
        read_ranges(config.get("ParameterRanges", {})),
    )
    combinations = math.prod(each.size for each in ranges)
    if strategy == "Grid":
        if not all(each.choices for each in ranges):
            raise invalid("Grid search takes categorical hyperparameters only")
        if count not in {None, combinations}:
            raise invalid(f"{key} of this grid must be {combinations}, or left out")
        return Search(config, ranges), int(combinations)
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
    return Search(config, ranges), int(count)
