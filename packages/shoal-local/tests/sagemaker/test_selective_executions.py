"""Selected steps run; what they need of others comes from an earlier execution."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import Account
from shoal_local.errors import AwsError
from shoal_local.sagemaker.pipelines.definition.definition import Step
from shoal_local.sagemaker.pipelines.execution.selection import reused_steps
from tests.sagemaker.questions import Questions, size_of


@pytest.fixture(scope="module")
def questions(account: Account) -> Questions:
    return Questions.of(account, "selected")


@pytest.fixture(scope="module")
def source(account: Account, questions: Questions) -> str:
    """An execution of A -> B -> C and A -> D in which A has answered 4 and the others failed."""
    after_a = {"Arguments": {"a": size_of("A")}}
    steps = [
        questions.step("A"),
        questions.step("B", **after_a),
        questions.step("C", DependsOn=["B"]),
        questions.step("D", DependsOn=["A"]),
    ]
    account.deploy_pipeline("selected", steps)
    arn: str = account.sagemaker.start_pipeline_execution(PipelineName="selected")[
        "PipelineExecutionArn"
    ]
    for answer in (4, None, None):
        questions.answer(answer)
    assert account.execution_ended(arn)["PipelineExecutionStatus"] == "Failed"
    return arn


def selection(source: str | None, *names: str) -> dict[str, Any]:
    steps = {"SelectedSteps": [{"StepName": name} for name in names]}
    return steps | ({"SourcePipelineExecutionArn": source} if source else {})


def start(account: Account, config: dict[str, Any]) -> str:
    answer = account.sagemaker.start_pipeline_execution(
        PipelineName="selected", SelectiveExecutionConfig=config
    )
    return str(answer["PipelineExecutionArn"])


def test_selected_steps_run_with_the_results_of_the_source(
    account: Account, questions: Questions, source: str
) -> None:
    config = selection(source, "B")
    arn = start(account, config)
    assert questions.answer(5) == {"step": "B", "a": 4}
    ended = account.execution_ended(arn)
    assert (ended["PipelineExecutionStatus"], ended["SelectiveExecutionConfig"]) == (
        "Succeeded",
        config,
    )
    steps = account.steps(ended)
    assert list(steps) == ["A", "B"]
    assert steps["A"] == account.steps({"PipelineExecutionArn": source})["A"] | {
        "SelectiveExecutionResult": {"SourcePipelineExecutionArn": source}
    }
    assert "SelectiveExecutionResult" not in steps["B"]


def test_a_retry_runs_the_selected_steps_only(
    account: Account, questions: Questions, source: str
) -> None:
    arn = start(account, selection(source, "B"))
    questions.answer(None)
    account.execution_ended(arn)
    account.sagemaker.retry_pipeline_execution(PipelineExecutionArn=arn)
    assert questions.answer(5) == {"step": "B", "a": 4}
    assert list(account.steps(account.execution_ended(arn))) == ["A", "B"]


def test_steps_that_need_no_other_need_no_source(
    account: Account, questions: Questions, source: str
) -> None:
    arn = start(account, selection(None, "A"))
    questions.answer(1)
    ended = account.execution_ended(arn)
    assert ended["PipelineExecutionStatus"] == "Succeeded"
    assert list(account.steps(ended)) == ["A"]


@pytest.mark.parametrize(
    ("names", "has_source", "message"),
    [
        (["B", "D"], False, r"SourcePipelineExecutionArn: null\. .*\[B, D\] have dep.* on \[A\]"),
        (["A", "C"], True, r"Invalid SelectedSteps: \[B\] are on paths between"),
        (["E"], True, r"Invalid SelectedSteps: \[E\] are not steps of the pipeline"),
        (["C"], True, r"Invalid SourcePipelineExecutionArn: arn.*The steps \[B\] did not succeed"),
    ],
)
def test_a_selection_that_cannot_run_is_refused(
    account: Account, source: str, names: list[str], has_source: bool, message: str
) -> None:
    with pytest.raises(ClientError, match=f"ValidationException.*{message}"):
        start(account, selection(source if has_source else None, *names))


def test_a_source_of_another_pipeline_or_nowhere_is_refused(
    account: Account, questions: Questions, source: str
) -> None:
    account.deploy_pipeline("unselected", [questions.step("A")])
    with pytest.raises(ClientError, match=r"ValidationException.*It is of another pipeline"):
        account.sagemaker.start_pipeline_execution(
            PipelineName="unselected", SelectiveExecutionConfig=selection(source, "A")
        )
    with pytest.raises(ClientError, match="ResourceNotFound"):
        start(account, selection(source[:-12] + "0" * 12, "A"))


@pytest.mark.parametrize(
    ("status", "outcome", "message"),
    [
        ("Stopped", True, "It is neither Failed nor Succeeded"),
        ("Succeeded", False, "The step Gate did not lead to the selected steps there"),
    ],
)
def test_a_source_that_was_stopped_or_went_another_way_is_refused(
    status: str, outcome: bool, message: str
) -> None:
    gate = Step("Gate", "Condition", {}, None, ())
    steps = {"Gate": gate, "Then": Step("Then", "Model", {}, ("Gate", True), ())}
    done = {"Gate": {"StepStatus": "Succeeded", "_outputs": {"Outcome": outcome}}}
    execution = {"PipelineExecutionStatus": status, "_steps": done}
    with pytest.raises(AwsError) as caught:
        reused_steps(steps, selection("arn", "Then"), lambda _: execution)
    assert message in caught.value.message


def test_a_step_of_the_branch_that_the_source_took_runs_without_the_condition() -> None:
    gate = Step("Gate", "Condition", {}, None, ())
    steps = {"Gate": gate, "Then": Step("Then", "Model", {}, ("Gate", True), ())}
    done = {"Gate": {"StepStatus": "Succeeded", "_outputs": {"Outcome": True}}}
    execution = {"PipelineExecutionStatus": "Failed", "_steps": done}
    assert list(reused_steps(steps, selection("arn", "Then"), lambda _: execution)) == ["Gate"]
