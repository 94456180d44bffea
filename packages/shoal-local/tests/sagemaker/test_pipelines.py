"""Pipelines: the deployed definition decides what runs, with which values, in which order; statuses
come from the steps.
"""

import gc
import json
import re
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import ACCOUNT_ID, BUCKET, Account, shell_step, until
from local_kit.tables import rows
from shoal_local.sagemaker.pipelines.execution import Execution
from shoal_local.sagemaker.pipelines.executions import Executions

REPORT = "/opt/ml/processing/report"
LEAST = {"Name": "Least", "Type": "Float", "DefaultValue": 0.9}
BELOW = {"Std:Join": {"On": " ", "Values": ["below", {"Get": "Parameters.Least"}]}}
PREFIX = [f"s3://{BUCKET}/evaluations", {"Get": "Execution.PipelineExecutionId"}]


def fail(name: str, message: Any) -> dict[str, Any]:
    return {"Name": name, "Type": "Fail", "Arguments": {"ErrorMessage": message}}


ANYHOW = {"Step": "First", "Trigger": "Any"}
FAIL, STOP = fail("TooLow", BELOW), fail("No", "no")


def report_step(script: str) -> dict[str, Any]:
    """A Processing step whose evaluation.json is what a script prints, with a property file."""
    place = {"S3Uri": {"Std:Join": {"On": "/", "Values": PREFIX}}, "LocalPath": REPORT}
    output = {"OutputName": "evaluation", "S3Output": place | {"S3UploadMode": "EndOfJob"}}
    file = {"PropertyFileName": "Report", "OutputName": "evaluation"}
    return shell_step(
        "Evaluate",
        f"{script} > {REPORT}/evaluation.json",
        Arguments={"ProcessingOutputConfig": {"Outputs": [output]}},
        PropertyFiles=[file | {"FilePath": "evaluation.json"}],
    )


def gate(*if_steps: dict[str, Any]) -> dict[str, Any]:
    """A Condition step: the report's accuracy is at least the parameter Least."""
    file = {"Get": "Steps.Evaluate.PropertyFiles.Report"}
    condition = {
        "Type": "GreaterThanOrEqualTo",
        "LeftValue": {"Std:JsonGet": {"PropertyFile": file, "Path": "metrics.accuracy.value"}},
        "RightValue": {"Get": "Parameters.Least"},
    }
    branches = {"Conditions": [condition], "IfSteps": list(if_steps), "ElseSteps": [FAIL]}
    return {"Name": "Gate", "Type": "Condition", "Arguments": branches}


@pytest.fixture(scope="module")
def gated(account: Account) -> str:
    report = report_step('echo \'{"metrics": {"accuracy": {"value": 0.95}}}\'')
    account.deploy_pipeline(
        "gated", [report, gate(shell_step("Release", "true"))], Parameters=[LEAST]
    )
    return "gated"


def test_a_parameter_of_the_start_decides_the_branch_and_fail_says_why(
    account: Account, gated: str
) -> None:
    """Of two executions at once, each has its own; a token starts one execution only."""
    starts = [
        {
            "PipelineParameters": [{"Name": "Least", "Value": least}],
            "ClientRequestToken": f"token-{least}".ljust(32, "x"),
        }
        for least in ("0.9", "0.99")
    ]
    start = partial(account.sagemaker.start_pipeline_execution, PipelineName=gated)
    arns = [start(**each)["PipelineExecutionArn"] for each in starts]
    passed, failed = map(account.execution_ended, arns)
    assert passed["PipelineExecutionStatus"] == "Succeeded"
    assert list(account.steps(passed)) == ["Evaluate", "Gate", "Release"]
    assert account.steps(passed)["Gate"]["Metadata"] == {"Condition": {"Outcome": "True"}}
    assert failed["PipelineExecutionStatus"] == "Failed"
    assert failed["FailureReason"] == "Step failure: One or multiple steps failed."
    assert account.steps(failed)["TooLow"]["FailureReason"] == "below 0.99"
    read_back = account.sagemaker.list_pipeline_parameters_for_execution
    for arn, each in zip(arns, starts, strict=True):
        answer = read_back(PipelineExecutionArn=arn)["PipelineParameters"]
        assert answer == each["PipelineParameters"]
        assert start(**each)["PipelineExecutionArn"] == arn


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("evaluation.json", "below 0.97"),
        ("none.json", "ClientError: The object s3://.*/none.json could not be read: .*NoSuchKey"),
    ],
)
def test_a_condition_reads_json_at_a_uri(account: Account, file: str, reason: str) -> None:
    report = report_step('echo \'{"metrics": {"accuracy": {"value": 0.96}}}\'')
    folder = {"Get": "Steps.Evaluate.ProcessingOutputConfig.Outputs['evaluation'].S3Output.S3Uri"}
    condition = gate()
    (first,) = condition["Arguments"]["Conditions"]
    uri = {"Std:Join": {"On": "/", "Values": [folder, file]}}
    first["LeftValue"] = {"Std:JsonGet": {"S3Uri": uri, "Path": "metrics.accuracy.value"}}
    name = f"at-a-uri-{file.partition('.')[0]}"
    account.deploy_pipeline(name, [report, condition], Parameters=[LEAST])
    least = [{"Name": "Least", "Value": "0.97"}]
    steps = account.steps(account.execute(name, PipelineParameters=least))
    assert re.match(reason, list(steps.values())[-1]["FailureReason"])


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("cut-short", "echo '{\"metrics\": '"),
        ("latin-1", r"printf '{\"author\": \"Jos\351\"}'"),
        ("infinite", 'echo \'{"metrics": {"accuracy": {"value": Infinity}}}\''),
        ("too-large", 'echo \'{"metrics": {"accuracy": {"value": 1e999}}}\''),
        ("nested", "head -c 200000 /dev/zero | tr '\\0' '['"),
    ],
)
def test_a_property_file_that_is_not_json_is_the_steps_failure_by_name(
    account: Account, name: str, script: str
) -> None:
    account.deploy_pipeline(name, [report_step(script), gate()], Parameters=[LEAST])
    reason = account.steps(account.execute(name))["Gate"]["FailureReason"]
    assert re.match(
        r"ClientError: Property file Report at s3://\S+/evaluation\.json is not JSON: ", reason
    )


def test_executions_and_steps_are_counted_and_timed(account: Account) -> None:
    account.deploy_pipeline("counted", [STOP])
    account.execute("counted")
    count = partial(account.measured, "AWS/Sagemaker/ModelBuildingPipeline", PipelineName="counted")
    assert [
        sum(count(name=f"Execution{what}", statistic="Sum"))
        for what in ("Started", "Failed", "Succeeded")
    ] == [1, 1, 0]
    assert sum(count(name="StepFailed", statistic="Sum", StepName="No")) == 1
    assert len(count(name="ExecutionDuration", statistic="Average")) == 1


def test_an_execution_that_has_ended_leaves_its_document_only(account: Account) -> None:
    account.deploy_pipeline("ended", [STOP])
    assert account.execute("ended")["PipelineExecutionStatus"] == "Failed"

    def is_kept(each: object) -> bool:
        return type(each) is Execution and each.record.name.startswith("ended/")

    until(gc.collect, lambda _: not any(map(is_kept, gc.get_objects())))


@pytest.mark.parametrize(("members", "message"), rows(__file__, "cases.yaml", "pipelines"))
def test_a_start_that_cannot_be_is_refused(
    account: Account, gated: str, members: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        account.sagemaker.start_pipeline_execution(PipelineName=gated, **members)


@pytest.mark.parametrize(
    ("name", "dependency", "status", "steps"),
    [
        ("fails", "First", "Failed", ["First"]),
        ("clean-up", ANYHOW, "CompletedWithFailures", ["First", "Second"]),
    ],
)
def test_what_follows_a_step_that_fails_starts_only_if_its_trigger_says_so(
    account: Account, name: str, dependency: Any, status: str, steps: list[str]
) -> None:
    second = shell_step("Second", "true", DependsOn=[dependency])
    account.deploy_pipeline(name, [shell_step("First", "echo no; exit 3"), second])
    execution = account.execute(name)
    assert execution["PipelineExecutionStatus"] == status
    started = account.steps(execution)
    assert list(started) == steps
    assert started["First"]["FailureReason"] == "AlgorithmError: no, exit code: 3"


@pytest.mark.parametrize("limit", [3, 1])
def test_steps_run_side_by_side_up_to_the_limit(account: Account, limit: int) -> None:
    account.deploy_pipeline(
        f"parallel-{limit}", [shell_step(name, "sleep 1") for name in ("A", "B", "C")]
    )
    execution = account.execute(
        f"parallel-{limit}", ParallelismConfiguration={"MaxParallelExecutionSteps": limit}
    )
    steps = account.steps(execution).values()
    at_once = [
        sum(other["StartTime"] <= step["StartTime"] < other["EndTime"] for other in steps)
        for step in steps
    ]
    assert (len(at_once), max(at_once)) == (3, limit)


@pytest.mark.parametrize("prefix", ["mine", "x" * 63])
def test_a_name_in_the_arguments_begins_the_jobs_name(account: Account, prefix: str) -> None:
    named = {"ProcessingJobName": {"Get": "Parameters.Prefix"}}
    parameter = {"Name": "Prefix", "Type": "String", "DefaultValue": prefix}
    pipeline = f"named-{len(prefix)}"
    account.deploy_pipeline(
        pipeline, [shell_step("Named", "true", Arguments=named)], Parameters=[parameter]
    )
    execution = account.execute(pipeline)
    arn = account.steps(execution)["Named"]["Metadata"]["ProcessingJob"]["Arn"]
    identifier = execution["PipelineExecutionArn"].rpartition("/")[2]
    start = prefix[: 63 - len(f"-{identifier}-{'t' * 10}-0")]
    name = arn.rpartition("/")[2]
    assert len(name) <= 63
    assert re.fullmatch(rf"{start}-{identifier}-[a-z0-9]{{10}}-0", name)


def test_an_execution_that_is_stopped_stops_its_job_and_until_then_keeps_its_pipeline(
    account: Account,
) -> None:
    steps = [shell_step("Long", "sleep 600"), shell_step("Next", "true", DependsOn=["Long"])]
    account.deploy_pipeline("stopped", steps)
    arn, client = account.begin("stopped"), account.sagemaker
    until(
        lambda: account.steps({"PipelineExecutionArn": arn}),
        lambda steps: "Metadata" in steps.get("Long", {}),
    )
    with pytest.raises(client.exceptions.ConflictException, match="executions that are still"):
        client.delete_pipeline(PipelineName="stopped")
    client.stop_pipeline_execution(PipelineExecutionArn=arn)
    execution = account.execution_ended(arn)
    long = account.steps(execution)["Long"]
    name = long["Metadata"]["ProcessingJob"]["Arn"].rpartition("/")[2]
    job = client.describe_processing_job(ProcessingJobName=name)
    assert execution["PipelineExecutionStatus"] == "Stopped"
    assert long["StepStatus"] == job["ProcessingJobStatus"] == "Stopped"
    client.delete_pipeline(PipelineName="stopped")
    with pytest.raises(client.exceptions.ResourceNotFound, match="does not exist"):
        client.describe_pipeline(PipelineName="stopped")


def test_an_execution_that_ends_while_it_is_told_to_stop_has_ended(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be Stopping for ever: in the way of the next one, and running, to those
    who clean up after it.
    """
    account.deploy_pipeline("just-ended", [STOP])
    arn = account.begin("just-ended")
    describe = Executions.describe

    def a_moment_before_it_ends(executions: Executions, request: dict[str, Any]) -> dict[str, Any]:
        execution = until(
            lambda: describe(executions, request),
            lambda each: each["PipelineExecutionStatus"] == "Failed",
        )
        return dict(execution) | {"PipelineExecutionStatus": "Executing"}

    monkeypatch.setattr(Executions, "describe", a_moment_before_it_ends)
    conflict = account.sagemaker.exceptions.ConflictException
    with pytest.raises(conflict, match="ended with status Failed"):
        account.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
    monkeypatch.undo()
    assert account.execution_ended(arn)["PipelineExecutionStatus"] == "Failed"


def lambda_step(
    account: Account, name: str, code: str, arguments: dict[str, Any], *outputs: str
) -> dict[str, Any]:
    """A step that calls a new function whose handler is `code`."""
    source = f"def handler(event, context):\n    {code}\n"
    declared = [{"OutputName": output, "OutputType": "String"} for output in outputs]
    return {
        "Name": name,
        "Type": "Lambda",
        "FunctionArn": account.control.function_arn(account.control.function(source)),
        "Arguments": arguments,
        "OutputParameters": declared,
    }


def test_a_lambda_step_passes_its_outputs_on(account: Account) -> None:
    word = {"WORD": {"Get": "Steps.Double.OutputParameters['twice']"}}
    use = shell_step("Use", 'test "$WORD" = gogo', Arguments={"Environment": word})
    code = "return {'twice': event['word'] * 2}"
    double = lambda_step(account, "Double", code, {"word": "go"}, "twice")
    account.deploy_pipeline("with-lambda", [double, use])
    execution = account.execute("with-lambda")
    assert execution["PipelineExecutionStatus"] == "Succeeded", account.steps(execution)
    metadata = account.steps(execution)["Double"]["Metadata"]["Lambda"]
    assert metadata["OutputParameters"] == [{"Name": "twice", "Value": "gogo"}]


def test_a_step_fails_with_its_functions_reason_cut_to_what_it_may_have(account: Account) -> None:
    steps = [
        lambda_step(account, "Raise", "raise RuntimeError('out of order\\n' + 'x' * 5000)", {}),
        lambda_step(account, "Ask", "return {'much': 'x' * 1025}", {}, "much"),
        fail("Say", "y" * 5000),
    ]
    account.deploy_pipeline("long-reasons", steps)
    ended = account.steps(account.execute("long-reasons"))
    reasons = {name: each["FailureReason"] for name, each in ended.items()}
    assert [len(reasons[name]) for name in ("Raise", "Say")] == [1024, 1024]
    assert "RuntimeError: out of order\nxxx" in reasons["Raise"]
    assert "cannot report, of 1025 characters" in reasons["Ask"]


def test_state_changes_are_events_with_the_documented_fields(account: Account) -> None:
    queue, arn = account.control.open_queue()
    pipeline = f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:pipeline/watched"
    pattern = {"source": ["aws.sagemaker"], "detail": {"pipelineArn": [pipeline]}}
    account.client("events").put_rule(Name="changes", EventPattern=json.dumps(pattern))
    account.client("events").put_targets(Rule="changes", Targets=[{"Id": "queue", "Arn": arn}])
    account.deploy_pipeline("watched", [shell_step("Only", "true")])
    account.execute("watched")
    changes: list[tuple[str, str]] = []

    def receive() -> list[tuple[str, str]]:
        for detail in (each["detail"] for each in account.control.received(queue, limit_s=1)):
            key = "currentStepStatus" if "stepName" in detail else "currentPipelineExecutionStatus"
            changes.append((detail.get("stepName", "execution"), detail[key]))
        return changes

    until(receive, lambda received: len(received) >= 5)
    steps = [("Only", "Executing"), ("Only", "Starting"), ("Only", "Succeeded")]
    assert sorted(changes) == [*steps, ("execution", "Executing"), ("execution", "Succeeded")]
