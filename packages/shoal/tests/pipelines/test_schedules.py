"""Schedules and the pipeline that they start: parameters that fit, and unexpected starts."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.pipelines.checks.parsers import Added
from shoal.pipelines.checks.schedules import notices, outdated, problems
from shoal.pipelines.checks.script_options import Option
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.schedules import Schedule
from shoal.settings.settings import Environment
from tests.repository import ROOT
from tests.tables import rows

DEFINITION = {
    "Parameters": [
        {"Name": "Epochs", "Type": "Integer"},
        {"Name": "Rate", "Type": "Float"},
        {"Name": "Shuffle", "Type": "Boolean"},
        {"Name": "InstanceType", "Type": "String", "EnumValues": ["ml.p4d.24xlarge"]},
    ]
}


def environment(**changes: Any) -> Environment:
    schedule = Schedule.model_validate(
        {"name": "nightly", "expression": "cron(0 3 * * ? *)", **changes}
    )
    return Environment(name="dev", workload="mnist", account="111122223333", schedules=(schedule,))


@pytest.mark.parametrize(("parameters", "text"), rows(__file__, "schedules.yaml", "parameters"))
def test_a_parameter_that_executions_would_refuse_is_one_problem(
    parameters: dict[str, Any], text: str
) -> None:
    (problem,) = problems(environment(parameters=parameters), DEFINITION)
    assert problem.key == f"schedules[0].parameters.{next(iter(parameters))}"
    assert text in problem.message


@pytest.mark.parametrize("epochs", [0, -5, "0"])
def test_a_parameter_that_the_training_script_would_refuse_is_a_problem_of_the_file(
    epochs: int | str,
) -> None:
    (schedule,) = environment(parameters={"Epochs": epochs}).schedules
    dev = load_environment("dev", ROOT).model_copy(update={"schedules": (schedule,)})
    line = r"schedules\[0\]\.parameters\.Epochs.* is not a positive number"
    with pytest.raises(ConfigError, match=line):
        check(dev, ROOT)


def test_true_is_checked_as_the_script_gets_it() -> None:
    declared = {"Parameters": [{"Name": "Fast", "Type": "String", "EnumValues": ["true", "false"]}]}
    choices = {"choices": ("true", "false")}
    options = {"Fast": Option(Added(("--fast",), choices, frozenset(), str, None, True))}
    (problem,) = problems(environment(parameters={"Fast": True}), declared, options)
    assert problem.message == (
        "is refused by the script: invalid choice: 'True' (choose from 'true', 'false')"
    )


def test_parameters_of_a_pipeline_of_one_s_own_mean_what_they_mean_there() -> None:
    own = environment(parameters={"InstanceCount": 500}).model_copy(
        update={"pipeline": "mine:build"}
    )
    assert list(problems(own, {"Parameters": [{"Name": "InstanceCount", "Type": "Integer"}]})) == []


def test_parameters_that_fit_are_none() -> None:
    fitting = {"Epochs": 3, "Rate": 0.1, "Shuffle": True, "InstanceType": "ml.p4d.24xlarge"}
    assert list(problems(environment(parameters=fitting), DEFINITION)) == []


RARE = "names its years, or is rarer than every 400 days, so no alarm waits for its signs"


@pytest.mark.parametrize(("changes", "text"), rows(__file__, "schedules.yaml", "notices"))
def test_what_nobody_may_expect_is_said(changes: dict[str, Any], text: str | None) -> None:
    told = list(notices(environment(**changes)))
    assert [text in each if text else each for each in told] == [True] * bool(text)


@pytest.mark.parametrize(
    ("expression", "text"),
    [("cron(0 3 * * ? 2027)", 0), ("cron(0 3 * * ? 2025)", 1), ("rate(1 day)", 0)],
)
def test_a_schedule_whose_last_year_is_past_is_told_on_the_day_it_is_looked_at(
    expression: str, text: int
) -> None:
    assert len(list(outdated(environment(expression=expression), date(2026, 11, 20)))) == text
