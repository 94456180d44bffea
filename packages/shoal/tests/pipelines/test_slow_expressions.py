"""An expression that a line of a log could keep busy is refused before anything is deployed."""

from __future__ import annotations

import pytest

from shoal.aws.metrics import MAX_MATCHED
from shoal.pipelines.checks.slow_expressions import LENGTH, is_slow, problems
from shoal.settings.sections.evaluation import Metric
from tests.pipelines.inputs import environment
from tests.tables import table

TABLE = table(__file__, "slow_expressions.yaml")
SLOW, FAST = TABLE["slow"], TABLE["fast"]


@pytest.mark.parametrize("expression", [*SLOW, *FAST])
def test_an_expression_that_a_line_keeps_busy_is_slow(expression: str) -> None:
    assert is_slow(expression) is (expression in SLOW)


def test_a_slow_expression_is_one_problem() -> None:
    metrics = {"loss": Metric(regex=SLOW[0]), "acc": Metric(regex=FAST[0])}
    training = environment().training.model_copy(update={"metrics": metrics})
    (problem,) = problems(environment().model_copy(update={"training": training}))
    assert problem.key == "training.metrics.loss.regex"
    assert MAX_MATCHED == LENGTH  # so long is a line that was tried
