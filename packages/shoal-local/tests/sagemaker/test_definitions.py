"""What a definition may say: the emulator runs it as AWS would, or refuses it by name before
anything starts.
"""

import json
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal_local.errors import AwsError
from shoal_local.sagemaker.pipelines.definition import parse
from shoal_local.sagemaker.pipelines.execution import Retries, final_status, ready_steps
from shoal_local.sagemaker.pipelines.executions import check_arguments
from shoal_local.sagemaker.pipelines.expressions import ExpressionError, Scope, holds, walk

CASES = "cases.yaml"
A, B = (table(__file__, CASES)["parts"][name] for name in "ab")


def definition(members: dict[str, Any]) -> str:
    """Return a definition with its `Steps`, and other members, if need be."""
    return json.dumps({"Version": "2020-12-01", "Metadata": {}, "Parameters": [], **members})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (definition(members), says)
            for members, says in rows(__file__, CASES, "definitions_refused")
        ),
        ("{", "Unable to parse pipeline definition"),
        ("[" * 100_000, "Unable to parse pipeline definition. It is nested too deep"),
    ],
)
def test_what_is_wrong_or_not_emulated_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(AwsError) as caught:
        check_arguments(parse(text))
    missing = "not emulate" in caught.value.message
    assert caught.value.code == ("UnknownOperationException" if missing else "ValidationException")
    assert message in caught.value.message


@pytest.mark.parametrize("members", table(__file__, CASES)["accepted"])
def test_what_a_run_may_be_able_to_do_is_accepted(members: dict[str, Any]) -> None:
    check_arguments(parse(definition(members)))


def scope() -> Scope:
    outputs = {"Outputs": [{"OutputName": "report", "S3Uri": "s3://b/k"}], "Sizes": [1, 2]}
    return Scope(
        {"P": 7},
        lambda name: f"<{name}>",
        lambda _step: outputs,
        lambda _step, _name: {"a": {"b": [0.5]}},
        lambda uri: {"of": {uri: [1]}},
    )


@pytest.mark.parametrize(("expression", "value"), rows(__file__, CASES, "expressions"))
def test_an_expression_has_its_value(expression: dict[str, Any], value: Any) -> None:
    assert scope().resolve({"deep": [expression]}) == {"deep": [value]}


def test_a_path_that_leads_nowhere_is_an_error_with_its_name() -> None:
    with pytest.raises(ExpressionError, match=r"There is no a\.c in the file"):
        walk({"a": {"b": 1}}, "a.c", "the file")


@pytest.mark.parametrize(("condition", "true"), rows(__file__, CASES, "conditions"))
def test_a_condition_holds_or_not(condition: dict[str, Any], true: bool) -> None:
    assert holds(condition, lambda value: value) is true


@pytest.mark.parametrize("kind", ["LessThan", "GreaterThanOrEqualTo"])
@pytest.mark.parametrize("left", ["a", True])
def test_values_that_cannot_be_compared_are_an_error(left: Any, kind: str) -> None:
    with pytest.raises(ExpressionError, match=f"cannot compare {left!r} with 0.97"):
        holds({"Type": kind, "LeftValue": left, "RightValue": 0.97}, lambda value: value)


@pytest.mark.parametrize(("trigger", "status", "starts"), rows(__file__, CASES, "triggers"))
def test_a_trigger_waits_for_its_ending(trigger: str, status: str, starts: bool) -> None:
    follows = B | {"DependsOn": [{"Step": "A", "Trigger": trigger}]}
    steps = parse(definition({"Steps": [A, follows]})).steps
    assert ("B" in ready_steps(steps, {"A": status}, {})) is starts


def test_a_failure_that_nothing_took_up_is_a_failed_execution() -> None:
    steps = parse(definition({"Steps": [A, B]})).steps
    assert final_status(steps, {"A": "Failed", "B": "Succeeded"}, stopped=False) == "Failed"


@pytest.mark.parametrize(("policies", "causes", "pauses_s"), rows(__file__, CASES, "retries"))
def test_a_failure_is_tried_again_as_its_policies_say(
    policies: list[dict[str, Any]], causes: list[str], pauses_s: list[float | None]
) -> None:
    retries = Retries(policies)
    assert [retries.pause_s(cause) for cause in causes] == pauses_s
