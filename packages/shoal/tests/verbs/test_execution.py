"""Executions against shoal-local's API, their parameters, and the phases of a verb."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import eventually
from local_kit.tables import rows
from shoal.aws.events import Event, PhaseEnded
from shoal.aws.execution import Execution, Pipeline, Step, check_parameters
from shoal.aws.target import Target
from shoal.errors import NotFoundError, ParameterError, ShoalError
from shoal.settings.loading.loader import load_environment
from shoal.verbs.flow import Phase, run_phases
from shoal.verbs.parameters import check_declared, check_values, parse_parameters
from tests.repository import ROOT
from tests.verbs.conftest import make_pipeline

NOT_TODAY = {"ErrorMessage": "not today"}
REFUSE: dict[str, Any] = {"Name": "Refuse", "Type": "Fail", "Arguments": NOT_TODAY}
PARAMETERS: list[dict[str, Any]] = [
    {"Name": "Epochs", "Type": "Integer", "DefaultValue": 2},
    {"Name": "LearningRate", "Type": "Float", "DefaultValue": 0.1},
    {"Name": "Dry", "Type": "Boolean", "DefaultValue": False},
    {"Name": "Mode", "Type": "String", "DefaultValue": "fast", "EnumValues": ["fast", "slow"]},
]


def gate(met: bool) -> dict[str, Any]:
    """Return a condition that is met or not; if not, the execution fails."""
    condition = {"Type": "GreaterThanOrEqualTo", "LeftValue": 1 if met else 0, "RightValue": 1}
    return {
        "Name": "Gate",
        "Type": "Condition",
        "Arguments": {"Conditions": [condition], "IfSteps": [], "ElseSteps": [REFUSE]},
    }


def ended(pipeline: Pipeline, arn: str) -> Execution:
    eventually(lambda: pipeline.look(arn).has_ended, 20)
    return pipeline.look(arn)


@pytest.mark.parametrize(("given", "message"), rows(__file__, "cases.yaml", "undeclared"))
def test_an_undeclared_value_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        check_parameters(PARAMETERS, given)


def test_parameters_of_the_declared_types_are_taken() -> None:
    taken = {"Epochs": "3", "LearningRate": "1e-3", "Mode": "slow", "Dry": "True"}
    check_parameters(PARAMETERS, taken)


def test_nothing_is_started_with_a_wrong_parameter(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=True)], PARAMETERS)
    with pytest.raises(ParameterError):
        pipeline.start({"Epochs": "many"})
    assert pipeline.executions() == []


def test_an_execution_is_found_by_arn_by_id_and_as_the_latest_and_no_other(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=True)])
    arn = pipeline.start({})
    newest = arn.rpartition("/")[2]
    assert {pipeline.find(each) for each in (arn, newest, "latest")} == {arn}
    with pytest.raises(NotFoundError, match=f"no execution 'xyz'; the newest are: {newest}"):
        pipeline.find("xyz")


def test_the_latest_of_none_is_an_error_that_says_how_one_starts(target: Target) -> None:
    with pytest.raises(NotFoundError, match=r"has had no executions; `shoal run` starts one"):
        make_pipeline(target, [gate(met=True)]).find("latest")
    with pytest.raises(NotFoundError, match=r"there is no pipeline nowhere "):
        Pipeline(target, "nowhere").find("latest")


def test_stopping_an_execution_that_has_ended_is_fine(target: Target) -> None:
    pipeline = make_pipeline(target, [gate(met=True)])
    arn = pipeline.start({})
    ended(pipeline, arn)
    pipeline.stop(arn)
    assert pipeline.look(arn).status == "Succeeded"


def test_a_pipeline_that_is_not_deployed_has_no_executions_and_starts_none(target: Target) -> None:
    assert Pipeline(target, "nowhere").executions() == []
    says = r"there is no pipeline nowhere .* `shoal deploy` makes it"
    with pytest.raises(NotFoundError, match=says):
        Pipeline(target, "nowhere").start({})


def test_the_planned_steps_are_those_on_the_way_to_success(target: Target) -> None:
    plan = gate(met=True)
    plan["Arguments"]["IfSteps"] = [{**REFUSE, "Name": "Then"}]
    planned = make_pipeline(target, [plan]).planned_steps()
    assert planned == (("Gate", "Condition"), ("Then", "Fail"))


def test_a_step_knows_its_outputs_and_what_it_made() -> None:
    made = {"Arn": "a:b", "OutputParameters": [{"Name": "status", "Value": "ok"}]}
    step = Step("S", "Lambda", "Succeeded", metadata={"Lambda": made})
    assert (step.output("status"), step.output("other")) == ("ok", None)
    assert (step.resource("Lambda"), step.resource("Model")) == ("a:b", None)


DEV = load_environment("dev", ROOT)
ASSETS = f"s3://cdk-hnb659fds-assets-{DEV.account}-{DEV.region}"


@pytest.mark.parametrize(
    ("name", "value", "mistake"), rows(__file__, "cases.yaml", "refused_values")
)
def test_a_value_that_fails_in_the_job_is_refused(name: str, value: str, mistake: str) -> None:
    says = re.escape(f"parameter '{name}': '{value}' {mistake}")
    with pytest.raises(ParameterError, match=f"^{says}"):
        check_values(DEV, {name: value}, ROOT)


def test_a_parameter_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"^parameter 'Epochs' is given twice; give it once$"):
        parse_parameters(("Epochs=1", "Epochs=2"))


def test_a_users_own_pipeline_may_mean_something_else_by_the_same_names() -> None:
    own = DEV.model_copy(update={"pipeline": "examples.sdk_pipeline:pipeline"})
    check_values(own, {"MinAccuracy": "95", "Epochs": "0"}, ROOT)


@pytest.mark.parametrize(
    ("pipeline", "parameters"),
    [("own:pipeline", {"Epochs": "1"}), (None, {}), (None, {"Epochs": "1"})],
    ids=["own", "none", "one"],
)
def test_a_script_that_python_cannot_read_judges_no_value(
    tmp_path: Path, pipeline: str | None, parameters: dict[str, str]
) -> None:
    (tmp_path / "train.py").write_text('print "2"', encoding="utf-8")
    training = DEV.training.model_copy(update={"source_dir": ".", "entry_point": "train.py"})
    settings = DEV.model_copy(update={"pipeline": pipeline, "training": training})
    check_values(settings, parameters, tmp_path)


def test_values_that_can_run_are_taken() -> None:
    parameters = {"MinAccuracy": "0.5", "Epochs": "1", "LearningRate": "1e-3"}
    parameters |= {"InstanceType": DEV.training.instance_type, "CodeUri": f"{ASSETS}/0123.tar.gz"}
    check_declared(DEV, parameters, ROOT)
    check_values(DEV, parameters, ROOT)


Log = list[str]


@pytest.fixture
def log() -> Log:
    return []


def note(log: Log, text: str) -> Phase:
    return Phase(text, partial(log.append, text), partial(log.append, f"undo {text}"))


def fail(log: Log, error: BaseException) -> Phase:
    def work() -> None:
        raise error

    return Phase("bad", work, partial(log.append, "undo bad"))


def test_phases_run_in_order_and_are_undone_in_reverse(log: Log) -> None:
    phases = [note(log, "a"), note(log, "b")]
    run_phases(phases, lambda _: None, partial(log.append, "shield"))
    assert log == ["a", "b", "shield", "undo b", "undo a"]


def test_after_a_failure_nothing_more_is_run_and_everything_begun_is_undone(log: Log) -> None:
    events: list[Event] = []
    phases = [note(log, "a"), fail(log, ShoalError("no")), note(log, "c")]
    outcome = run_phases(phases, events.append, lambda: None)
    assert log == ["a", "undo bad", "undo a"]
    assert [failure.phase for failure in outcome.failures] == ["bad"]
    assert outcome.seconds.keys() & {"a", "bad", "c"} == {"a"}
    ends = [event.failed for event in events if isinstance(event, PhaseEnded)]
    assert ends == [False, True, False, False]


def test_an_interruption_is_an_outcome_and_is_undone(log: Log) -> None:
    phases = [note(log, "a"), fail(log, KeyboardInterrupt())]
    assert run_phases(phases, lambda _: None, lambda: None).interrupted
    assert log[-1] == "undo a"


def test_an_undoing_that_fails_does_not_stop_the_others(log: Log) -> None:
    def refuse() -> None:
        raise ShoalError("stuck")

    outcome = run_phases([note(log, "a"), Phase("b", None, refuse)], lambda _: None, lambda: None)
    assert log[-1] == "undo a"
    assert str(outcome.failures[0].error) == "stuck"


def test_a_bug_is_raised_after_the_undoing(log: Log) -> None:
    phases = [note(log, "a"), fail(log, ZeroDivisionError())]
    with pytest.raises(ZeroDivisionError):
        run_phases(phases, lambda _: None, lambda: None)
    assert log[-1] == "undo a"
