"""The gates behind an evaluation: which numbers of its report the model must reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import StringConstraints

from config.base import Settings
from config.errors import Problem
from config.hyperparameters import parameter_name

if TYPE_CHECKING:
    from config.settings import Environment

MetricName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=24)
]

MAX_BOUNDS = 4
"""Each takes up to 60 of the 256 characters of a value in CustomerMetadataProperties (botocore
1.44.5, CustomerMetadataValue; read).
"""


class Gate(Settings):
    """What one number of evaluation.json must be for the model to be registered."""

    metric: MetricName
    """Name of the metric: the number at `metrics.NAME.value` in evaluation.json."""
    at_least: float | None = None
    """The smallest number that passes."""
    at_most: float | None = None
    """The largest number that passes."""


@dataclass(frozen=True)
class Bound:
    """One side of a gate, which is one condition and one parameter of the pipeline."""

    metric: str
    kind: Literal["at least", "at most"]
    value: float

    @property
    def parameter(self) -> str:
        """Return the parameter by which one execution may have another value: `MinAccuracy`,
        `MaxRmse`.
        """
        return parameter_name(f"{'min' if self.kind == 'at least' else 'max'}_{self.metric}")


def bounds(gates: tuple[Gate, ...]) -> Iterator[Bound]:
    """Yield every side of every gate, in the order of the file."""
    for gate in gates:
        if gate.at_least is not None:
            yield Bound(gate.metric, "at least", gate.at_least)
        if gate.at_most is not None:
            yield Bound(gate.metric, "at most", gate.at_most)


def problems(environment: Environment) -> Iterator[Problem]:
    """Yield what is wrong between the keys of an environment's gates."""
    return problems_of(environment.evaluation.gates, "evaluation.gates")


def problems_of(gates: tuple[Gate, ...], where: str) -> Iterator[Problem]:
    """Yield what is wrong between the keys of gates, which stand at the key `where`."""
    for index, gate in enumerate(gates):
        key = f"{where}[{index}]"
        if gate.at_least is None and gate.at_most is None:
            yield Problem(key, "lets everything pass", "give it `at_least` or `at_most`")
        elif (
            gate.at_least is not None and gate.at_most is not None and gate.at_least > gate.at_most
        ):
            message = f"no number is at least {gate.at_least:g} and at most {gate.at_most:g}"
            yield Problem(key, message, "correct one of the two")
    if (count := len(list(bounds(gates)))) > MAX_BOUNDS:
        message = f"have {count} limits; the registry's entry has room for {MAX_BOUNDS}"
        yield Problem(where, message, "keep those that decide")
    for (metric, kind), count in Counter(
        (bound.metric, bound.kind) for bound in bounds(gates)
    ).items():
        if count > 1:
            message = f"{count} gates say what {metric} is {kind}"
            yield Problem(where, message, "keep one of them")
