"""Graph, expressions, retries and arguments that SageMaker would refuse are refused here."""

from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.pipelines import shapes
from shoal.pipelines.expressions import Join, Parameter, Property, PropertyFile, render
from shoal.pipelines.graph import Pipeline
from shoal.pipelines.steps import (
    CREATE_CALL,
    JOB,
    Condition,
    Endpoint,
    EndpointConfig,
    Fail,
    GreaterThanOrEqualTo,
    Lambda,
    Model,
    Processing,
    RegisterModel,
    ReportFile,
    RetryOn,
    RetryPolicy,
    Step,
    Training,
    of_training,
)
from shoal.settings.parsing.errors import DefinitionError
from tests.pipelines.inputs import definition, set_at

THRESHOLD = Parameter("Threshold", "Float", 0.5)


def gate(*if_true: Step, if_false: tuple[Step, ...] = (), name: str = "Gate") -> Condition:
    met = GreaterThanOrEqualTo(1.0, 0.5)
    return Condition(name, conditions=(met,), if_true=if_true, if_false=if_false)


def mistakes(*steps: Step, parameters: tuple[Parameter, ...] = ()) -> list[str]:
    try:
        Pipeline(parameters, steps or (Training("Train"),)).to_dict()
    except DefinitionError as error:
        return str(error).splitlines()
    return []


OF_A, UNDECLARED = {"X": Property("A", "Y")}, {"X": Join("", (THRESHOLD,))}
SEAL = Lambda("Seal", function_arn="arn", outputs={"status": "String"})
OF_SEAL = Model("A", {"X": Property("Seal", "OutputParameters['size']")})
REPORT = Fail("B", message=Join(" ", (PropertyFile("A", "Report", "x"),)))
TWO_MISTAKES = Training("A", {"X": Property("Nowhere", "Y"), "Z": THRESHOLD})
TWICE = "appears 2 times; a step may stand in one place only"
AFTER_GATE = "may not depend on condition Gate; put it into one of its branches"
NO_STEP, NO_PARAMETER = "there is no step", "there is no parameter"


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ([TWO_MISTAKES], [f"A: {NO_STEP} Nowhere", f"A: {NO_PARAMETER} Threshold"]),
        ([Training("A"), gate(Training("A"))], [f"A {TWICE}"]),
        ([Training("A", {"X": [{"Y": Property("B", "Z")}]})], [f"A: {NO_STEP} B"]),
        ([Training("A", depends_on=("B",))], [f"A: {NO_STEP} B"]),
        ([Training("A", UNDECLARED)], [f"A: {NO_PARAMETER} Threshold"]),
        ([Training("A"), gate(Model("B", OF_A))], []),
        ([gate(Training("A"), if_false=(Model("B", OF_A),))], ["B: A runs only in another branch"]),
        ([gate(), Training("A", depends_on=("Gate",))], [f"A: {AFTER_GATE}"]),
        ([Processing("A"), REPORT], ["B: step A has no property file Report"]),
        ([SEAL, OF_SEAL], ["A: step Seal has no output size; it has status"]),
    ],
)
def test_every_mistake_of_a_step_is_one_line(steps: list[Step], lines: list[str]) -> None:
    assert mistakes(*steps) == [f"step {line}" for line in lines]


@pytest.mark.parametrize(
    ("parameters", "line"),
    [
        ([THRESHOLD, THRESHOLD], "parameter Threshold is declared 2 times"),
        (
            [Parameter(f"P{n}", "Integer", 1) for n in range(201)],
            "201 parameters; SageMaker allows",
        ),
        ([Parameter("A", "Integer", 1.5)], "parameter A: default 1.5 is not of type Integer"),
        ([Parameter("A", "String", 1)], "parameter A: default 1 is not of type String"),
        ([Parameter("A", "Integer", True)], "parameter A: default True is not of type Integer"),
        ([Parameter("A", "Boolean", 1)], "parameter A: default 1 is not of type Boolean"),
        ([Parameter("a b", "String", "x")], "parameter 'a b': a name is 1 to 256 letters"),
        ([Parameter("A", "String", "x" * 4097)], "parameter A: its default has more than 4096"),
    ],
)
def test_a_mistake_of_parameters_is_one_line(parameters: list[Parameter], line: str) -> None:
    (mistake,) = mistakes(parameters=tuple(parameters))
    assert mistake.startswith(line)


@pytest.mark.parametrize("name", ["", "with space", "a" * 65, "dots.too"])
def test_step_names_follow_the_apis_pattern(name: str) -> None:
    assert "a Name of 1 to 64 letters, digits, - and _" in mistakes(Training(name))[0]


def test_steps_that_wait_for_each_other_are_refused() -> None:
    (line,) = mistakes(Training("A", depends_on=("B",)), Training("B", {"X": Property("A", "Y")}))
    assert line in (
        "the steps wait for each other: A -> B -> A",
        "the steps wait for each other: B -> A -> B",
    )


def test_a_step_before_a_condition_may_not_wait_for_one_inside_it() -> None:
    reports = (ReportFile("R", "out", "r.json"),)
    first = Processing("First", {"X": Property("Inside", "Y")}, report_files=reports)
    met = GreaterThanOrEqualTo(PropertyFile("First", "R", "a"), 1)
    lines = mistakes(first, Condition("Gate", conditions=(met,), if_true=(Training("Inside"),)))
    assert "step First: Inside runs only in another branch" in lines
    assert any(line.startswith("the steps wait for each other") for line in lines)


@pytest.mark.parametrize("step", [Lambda, Endpoint, EndpointConfig, Fail, Condition])
def test_steps_that_cannot_retry_take_no_policy(step: type[Step]) -> None:
    needed: dict[type[Step], dict[str, Any]] = {
        Lambda: {"function_arn": "arn"},
        Fail: {"message": "x"},
        Condition: {"conditions": ()},
    }
    assert mistakes(step("A", retries=(CREATE_CALL,), **needed.get(step, {}))) == [
        f"step A: {step.type} steps take no retry policy"
    ]


@pytest.mark.parametrize("step", [Model, RegisterModel])
def test_steps_without_a_job_retry_on_the_call_only(step: type[Step]) -> None:
    says = f"step A: {step.type} steps cannot retry on SageMaker.CAPACITY_ERROR"
    assert mistakes(step("A", retries=(JOB,)))[0] == says


def test_a_step_of_ones_own_has_its_parents_type_or_one_that_it_says() -> None:
    class Mine(Training):
        """A training with something of ours."""

    class Check(Step):
        type = "QualityCheck"

    assert [each.type for each in (Mine, Check, Lambda)] == ["Training", "QualityCheck", "Lambda"]


def test_an_exception_type_belongs_to_one_policy() -> None:
    first, *_ = mistakes(Training("A", retries=(CREATE_CALL, CREATE_CALL)))
    assert "Step.SERVICE_FAULT is in more than one retry policy" in first


def test_what_is_not_there_names_what_is() -> None:
    pipeline = Pipeline((THRESHOLD,), (Training("A"), gate(Training("B"))))
    assert (pipeline.step("B"), pipeline.parameter("Threshold")) == (Training("B"), THRESHOLD)
    with pytest.raises(DefinitionError, match="there is no step C; there are A, Gate, B"):
        pipeline.step("C")
    with pytest.raises(DefinitionError, match="there is no parameter D; there are Threshold"):
        pipeline.parameter("D")


EPOCHS = Parameter("Epochs", "Integer", 2)


def test_numbers_become_text_where_text_is_needed() -> None:
    assert render(EPOCHS.as_text()) == {
        "Std:Join": {"On": "", "Values": [{"Get": "Parameters.Epochs"}]}
    }
    assert Parameter("Name", "String", "x").as_text().to_json() == {"Get": "Parameters.Name"}


@pytest.mark.parametrize(("wrong", "message"), rows(__file__, "definition.yaml", "retry_limits"))
def test_limits_of_the_documentation_hold(wrong: dict[str, Any], message: str) -> None:
    valid: dict[str, Any] = {"on": (RetryOn.THROTTLING,), "max_attempts": 1}
    with pytest.raises(ValueError, match=message):
        RetryPolicy(**valid | wrong)


@pytest.mark.parametrize(
    ("retry_for_s", "interval_s", "minutes"), rows(__file__, "definition.yaml", "capacity_waits")
)
def test_capacity_is_looked_for_as_long_as_said_and_nothing_else(
    retry_for_s: int, interval_s: int, minutes: int
) -> None:
    _, waiting, lost = of_training(retry_for_s)
    assert waiting.to_json() == {
        "ExceptionType": ["SageMaker.CAPACITY_ERROR", "SageMaker.RESOURCE_LIMIT"],
        "IntervalSeconds": interval_s,
        "BackoffRate": 1.0,
        "ExpireAfterMin": minutes,
    }
    assert (lost.on, lost.max_attempts) == ((RetryOn.JOB_INTERNAL_ERROR,), JOB.max_attempts)
    assert of_training(None) == (CREATE_CALL, JOB)


def mistakes_with(**changes: Any) -> list[str]:
    """Return the mistakes in the golden definition with other values at these paths."""
    document = definition()
    for path, value in changes.items():
        set_at(document, path, value)
    return list(shapes.mistakes_in(document))


@pytest.mark.parametrize(
    "row", table(__file__, "definition.yaml")["spoilt"], ids=lambda row: row["line"]
)
def test_a_spoilt_argument_is_found_at_its_path(row: dict[str, Any]) -> None:
    (mistake,) = mistakes_with(**{row["at"]: row["is"]})
    assert row["line"] in mistake


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (f"Train.HyperParameters.{'x' * 257}", "1", "257 characters; allowed are 0 to 256"),
        ("Train.HyperParameters", {f"h{n}": "1" for n in range(101)}, "entries; allowed are 0 to"),
        ("/Metadata", {"padding": "x" * shapes.MAX_DEFINITION}, "SageMaker allows 1048576"),
    ],
)
def test_what_is_too_long_is_told_with_the_limit(path: str, value: Any, line: str) -> None:
    (mistake,) = mistakes_with(**{path: value})
    assert line in mistake


def test_expressions_and_cdk_tokens_stand_for_anything() -> None:
    token = "arn:${Token[AWS.Partition.3]}:iam::${Token[AWS.AccountId.0]}:role/x"
    condition = {"Get": "Steps.Evaluate.StoppingCondition"}
    assert mistakes_with(**{"Train.RoleArn": token, "Train.StoppingCondition": condition}) == []


@pytest.mark.parametrize(("path", "line"), rows(__file__, "definition.yaml", "properties"))
def test_a_property_is_one_that_the_job_has(path: str, line: str) -> None:
    value = {"Std:Join": {"On": "/", "Values": ["s3:/", {"Get": f"Steps.Train.{path}"}]}}
    mistakes = mistakes_with(**{"Evaluate.Environment": {"FROM": value}})
    assert len(mistakes) == bool(line)
    assert line in "".join(mistakes)


def test_checking_raises_all_mistakes_at_once() -> None:
    document = definition()
    for step in ("Train", "Evaluate"):
        set_at(document, f"{step}.RoleArn", None)
    with pytest.raises(DefinitionError) as caught:
        shapes.check(document)
    assert len(caught.value.mistakes) == 2
