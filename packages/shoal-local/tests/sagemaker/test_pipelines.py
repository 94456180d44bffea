"""Pipelines: the deployed definition decides what runs, with which values, in which order; statuses
come from the steps.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import allow, trust
from local_kit.sagemaker_account import ACCOUNT_ID, BUCKET, Account, channel, shell_step, until
from shoal_local.sagemaker.pipelines.execution.executions import Executions

ID = 12 * "a"
REPORT = "/opt/ml/processing/report"
FAIL = {
    "Name": "TooLow",
    "Type": "Fail",
    "Arguments": {
        "ErrorMessage": {"Std:Join": {"On": " ", "Values": ["below", {"Get": "Parameters.Least"}]}}
    },
}
STOP = {"Name": "No", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}
LEAST = {"Name": "Least", "Type": "Float", "DefaultValue": 0.9}


def begun(account: Account, pipeline: str) -> str:
    """Start an execution; return its ARN."""
    answer = account.sagemaker.start_pipeline_execution(PipelineName=pipeline)
    return str(answer["PipelineExecutionArn"])


def report_step(accuracy: str) -> dict[str, Any]:
    """A Processing step that writes evaluation.json, with a property file for it."""
    return step_that_writes(f'echo \'{{"metrics": {{"accuracy": {{"value": {accuracy}}}}}}}\'')


def step_that_writes(script: str) -> dict[str, Any]:
    """The same, of what a script prints."""
    prefix = {
        "Std:Join": {
            "On": "/",
            "Values": [f"s3://{BUCKET}/evaluations", {"Get": "Execution.PipelineExecutionId"}],
        }
    }
    output = {
        "OutputName": "evaluation",
        "S3Output": {"S3Uri": prefix, "LocalPath": REPORT, "S3UploadMode": "EndOfJob"},
    }
    return shell_step(
        "Evaluate",
        f"{script} > {REPORT}/evaluation.json",
        Arguments={"ProcessingOutputConfig": {"Outputs": [output]}},
        PropertyFiles=[
            {
                "PropertyFileName": "Report",
                "OutputName": "evaluation",
                "FilePath": "evaluation.json",
            }
        ],
    )


def gate(if_steps: list[dict[str, Any]], else_steps: list[dict[str, Any]]) -> dict[str, Any]:
    """A Condition step: the report's accuracy is at least the parameter Least."""
    measured = {
        "Std:JsonGet": {
            "PropertyFile": {"Get": "Steps.Evaluate.PropertyFiles.Report"},
            "Path": "metrics.accuracy.value",
        }
    }
    condition = {
        "Type": "GreaterThanOrEqualTo",
        "LeftValue": measured,
        "RightValue": {"Get": "Parameters.Least"},
    }
    return {
        "Name": "Gate",
        "Type": "Condition",
        "Arguments": {"Conditions": [condition], "IfSteps": if_steps, "ElseSteps": else_steps},
    }


@pytest.fixture(scope="module")
def gated(account: Account) -> str:
    account.deploy_pipeline(
        "gated",
        [report_step("0.95"), gate([shell_step("Release", "true")], [FAIL])],
        Parameters=[LEAST],
    )
    return "gated"


def test_a_good_measurement_takes_the_if_branch(account: Account, gated: str) -> None:
    execution = account.execute(gated)
    steps = account.steps(execution)
    assert execution["PipelineExecutionStatus"] == "Succeeded"
    statuses = {name: step["StepStatus"] for name, step in steps.items()}
    assert statuses == dict.fromkeys(["Evaluate", "Gate", "Release"], "Succeeded")
    assert steps["Gate"]["Metadata"] == {"Condition": {"Outcome": "True"}}


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
    assert failed["PipelineExecutionStatus"] == "Failed"
    assert failed["FailureReason"] == "Step failure: One or multiple steps failed."
    assert account.steps(failed)["TooLow"]["FailureReason"] == "below 0.99"
    read_back = account.sagemaker.list_pipeline_parameters_for_execution
    for arn, each in zip(arns, starts, strict=True):
        answer = read_back(PipelineExecutionArn=arn)["PipelineParameters"]
        assert answer == each["PipelineParameters"]
        assert start(**each)["PipelineExecutionArn"] == arn


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("cut-short", "echo '{\"metrics\": '"),
        ("latin-1", r"printf '{\"author\": \"Jos\351\"}'"),
        ("nested", "head -c 200000 /dev/zero | tr '\\0' '['"),
    ],
)
def test_a_property_file_that_is_not_json_is_the_steps_failure_by_name(
    account: Account, name: str, script: str
) -> None:
    account.deploy_pipeline(name, [step_that_writes(script), gate([], [FAIL])], Parameters=[LEAST])
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


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"PipelineParameters": [{"Name": "Most", "Value": "1"}]}, "Unknown parameters"),
        ({"PipelineParameters": [{"Name": "Least", "Value": "much"}]}, "is not of type Float"),
        ({"PipelineVersionAlias": "live"}, r"StartPipelineExecution\.PipelineVersionAlias"),
        ({"RoleArn": f"arn:aws:iam::{ACCOUNT_ID}:role/jobs"}, r"StartPipelineExecution\.RoleArn"),
        (
            {"SelectiveExecutionConfig": {"SelectedSteps": [{"StepName": "Gate"}]}},
            r"not emulate StartPipelineExecution\.SelectiveExecutionConfig",
        ),
    ],
)
def test_a_start_that_cannot_be_is_refused(
    account: Account, gated: str, members: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        account.sagemaker.start_pipeline_execution(PipelineName=gated, **members)


def test_a_retry_of_an_execution_is_refused_by_name(account: Account, gated: str) -> None:
    arn = account.sagemaker.describe_pipeline(PipelineName=gated)["PipelineArn"]
    with pytest.raises(ClientError, match="not emulate the operation RetryPipelineExecution"):
        account.sagemaker.retry_pipeline_execution(
            PipelineExecutionArn=f"{arn}/execution/{12 * 'a'}"
        )


def create_from_s3(account: Account, name: str, content: bytes) -> None:
    account.put("definitions/it.json", content)
    account.sagemaker.create_pipeline(
        PipelineName=name,
        PipelineDefinitionS3Location={"Bucket": BUCKET, "ObjectKey": "definitions/it.json"},
        RoleArn=account.role,
    )


def test_a_definition_in_s3_is_deployed(account: Account) -> None:
    text = json.dumps({"Version": "2020-12-01", "Steps": [STOP]})
    create_from_s3(account, "from-s3", text.encode())
    described = account.sagemaker.describe_pipeline(PipelineName="from-s3")
    assert described["PipelineDefinition"] == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"Author": "José"}'.encode("latin-1"), "can't decode byte"),
        (b" " * 1_048_577, "it has 1048577 bytes; at most 1048576 are allowed"),
    ],
)
def test_a_definition_in_s3_that_is_no_text_or_too_large_is_refused(
    account: Account, content: bytes, message: str
) -> None:
    with pytest.raises(ClientError, match=f"ValidationException.*{message}"):
        create_from_s3(account, "unusable", content)


def test_a_training_step_hands_its_model_to_the_next_step(account: Account) -> None:
    arguments = account.training("x", InputDataConfig=[channel(f"s3://{BUCKET}/data/train/")])
    del arguments["TrainingJobName"]
    source = {
        "S3Uri": {"Get": "Steps.Train.ModelArtifacts.S3ModelArtifacts"},
        "LocalPath": "/opt/ml/processing/model",
        "S3DataType": "S3Prefix",
        "S3InputMode": "File",
    }
    evaluate = shell_step(
        "Use",
        "tar -tzf /opt/ml/processing/model/model.tar.gz | grep model.txt",
        Arguments={"ProcessingInputs": [{"InputName": "model", "S3Input": source}]},
    )
    train = {"Name": "Train", "Type": "Training", "Arguments": arguments}
    account.deploy_pipeline("hands-over", [evaluate, train])
    execution = account.execute("hands-over")
    assert execution["PipelineExecutionStatus"] == "Succeeded", account.steps(execution)
    assert list(account.steps(execution)) == ["Train", "Use"]


@pytest.mark.parametrize(
    ("name", "dependency", "status", "steps"),
    [
        ("fails", "First", "Failed", ["First"]),
        (
            "clean-up",
            {"Step": "First", "Trigger": "Any"},
            "CompletedWithFailures",
            ["First", "Second"],
        ),
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


def test_stopping_an_execution_stops_its_job(account: Account) -> None:
    account.deploy_pipeline(
        "stopped", [shell_step("Long", "sleep 600"), shell_step("Next", "true", DependsOn=["Long"])]
    )
    arn = begun(account, "stopped")
    until(
        lambda: account.steps({"PipelineExecutionArn": arn}),
        lambda steps: "Metadata" in steps.get("Long", {}),
    )
    account.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
    execution = account.execution_ended(arn)
    long = account.steps(execution)["Long"]
    name = long["Metadata"]["ProcessingJob"]["Arn"].rpartition("/")[2]
    job = account.sagemaker.describe_processing_job(ProcessingJobName=name)
    assert execution["PipelineExecutionStatus"] == "Stopped"
    assert long["StepStatus"] == job["ProcessingJobStatus"] == "Stopped"


def test_an_execution_that_ends_while_it_is_told_to_stop_has_ended(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be Stopping for ever: in the way of the next one, and running, to those
    who clean up after it.
    """
    account.deploy_pipeline("just-ended", [STOP])
    arn = begun(account, "just-ended")
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


def test_a_pipeline_cannot_be_deleted_while_it_executes(account: Account) -> None:
    account.deploy_pipeline("busy", [shell_step("Long", "sleep 600")])
    arn = begun(account, "busy")
    with pytest.raises(account.sagemaker.exceptions.ConflictException):
        account.sagemaker.delete_pipeline(PipelineName="busy")
    account.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
    account.execution_ended(arn)
    account.sagemaker.delete_pipeline(PipelineName="busy")
    with pytest.raises(account.sagemaker.exceptions.ResourceNotFound, match="does not exist"):
        account.sagemaker.describe_pipeline(PipelineName="busy")


def test_jobs_are_called_with_the_pipelines_role_and_named_by_the_execution(
    account: Account,
) -> None:
    account.deploy_pipeline("names", [shell_step("My_Step", "true")])
    execution = account.execute("names")
    identifier = execution["PipelineExecutionArn"].rpartition("/")[2]
    arn = account.steps(execution)["My_Step"]["Metadata"]["ProcessingJob"]["Arn"]
    lines = (account.state_dir / "requests.jsonl").read_text().splitlines()
    calls = [json.loads(line) for line in lines if "CreateProcessingJob" in line]
    (caller,) = [each["caller"] for each in calls if identifier in json.dumps(each["parameters"])]
    assert arn.rpartition("/")[2].startswith(f"pipelines-{identifier}-my-step-")
    assert f"assumed-role/jobs/SageMaker-pipeline-{identifier}" in caller


def function(account: Account, name: str, code: str) -> str:
    """A Lambda function whose handler is `code`; its ARN."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("app.py", f"def handler(event, context):\n    {code}\n")
    account.client("iam").create_role(
        RoleName=name, AssumeRolePolicyDocument=trust({"Service": "lambda.amazonaws.com"})
    )
    created = account.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.12",
        Handler="app.handler",
        Role=f"arn:aws:iam::{ACCOUNT_ID}:role/{name}",
        Code={"ZipFile": buffer.getvalue()},
    )
    return str(created["FunctionArn"])


def lambda_step(name: str, arn: str, arguments: dict[str, Any], *outputs: str) -> dict[str, Any]:
    declared = [{"OutputName": output, "OutputType": "String"} for output in outputs]
    return {
        "Name": name,
        "Type": "Lambda",
        "FunctionArn": arn,
        "Arguments": arguments,
        "OutputParameters": declared,
    }


def test_a_lambda_step_passes_its_outputs_on(account: Account) -> None:
    arn = function(account, "doubles", "return {'twice': event['word'] * 2}")
    word = {"WORD": {"Get": "Steps.Double.OutputParameters['twice']"}}
    use = shell_step("Use", 'test "$WORD" = gogo', Arguments={"Environment": word})
    double = lambda_step("Double", arn, {"word": "go"}, "twice")
    account.deploy_pipeline("with-lambda", [double, use])
    execution = account.execute("with-lambda")
    assert execution["PipelineExecutionStatus"] == "Succeeded", account.steps(execution)
    metadata = account.steps(execution)["Double"]["Metadata"]["Lambda"]
    assert metadata["OutputParameters"] == [{"Name": "twice", "Value": "gogo"}]


def test_a_step_fails_with_its_functions_reason_cut_to_what_it_may_have(account: Account) -> None:
    raises = function(account, "raises", "raise RuntimeError('out of order\\n' + 'x' * 5000)")
    answers = function(account, "answers-much", "return {'much': 'x' * 1025}")
    steps = [
        lambda_step("Raise", raises, {}),
        lambda_step("Ask", answers, {}, "much"),
        {"Name": "Say", "Type": "Fail", "Arguments": {"ErrorMessage": "y" * 5000}},
    ]
    account.deploy_pipeline("long-reasons", steps)
    ended = account.steps(account.execute("long-reasons"))
    reasons = {name: each["FailureReason"] for name, each in ended.items()}
    assert [len(reasons[name]) for name in ("Raise", "Say")] == [1024, 1024]
    assert "RuntimeError: out of order\nxxx" in reasons["Raise"]
    assert "cannot report, of [1025] characters" in reasons["Ask"]


def test_state_changes_are_events_with_the_documented_fields(account: Account) -> None:
    queue = account.client("sqs").create_queue(QueueName="changes")["QueueUrl"]
    arn = account.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])[
        "Attributes"
    ]["QueueArn"]
    policy = json.dumps(
        allow("sqs:SendMessage", arn, Principal={"Service": "events.amazonaws.com"})
    )
    account.client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
    pattern = {
        "source": ["aws.sagemaker"],
        "detail": {"pipelineArn": [f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:pipeline/watched"]},
    }
    account.client("events").put_rule(Name="changes", EventPattern=json.dumps(pattern))
    account.client("events").put_targets(Rule="changes", Targets=[{"Id": "queue", "Arn": arn}])
    account.deploy_pipeline("watched", [shell_step("Only", "true")])
    account.execute("watched")
    changes: list[tuple[str, str]] = []

    def receive() -> list[tuple[str, str]]:
        sqs = account.client("sqs")
        got = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        for detail in (json.loads(message["Body"])["detail"] for message in got):
            key = "currentStepStatus" if "stepName" in detail else "currentPipelineExecutionStatus"
            changes.append((detail.get("stepName", "execution"), detail[key]))
        return changes

    until(receive, lambda received: len(received) >= 5)
    steps = [("Only", "Executing"), ("Only", "Starting"), ("Only", "Succeeded")]
    assert sorted(changes) == [*steps, ("execution", "Executing"), ("execution", "Succeeded")]
