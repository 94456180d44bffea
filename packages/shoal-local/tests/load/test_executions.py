"""Many executions at once: all of them run, each with its own names and with what its function
answered. `make test-all` starts SHOAL_LOAD (30).
"""

import json
import os
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account
from local_kit.sagemaker_account import INFERENCE_IMAGE
from local_kit.sagemaker_account import Account as JobsAccount
from tests.load.conftest import growth_below

pytestmark = pytest.mark.nightly

STARTS = int(os.environ.get("SHOAL_LOAD", "30"))
AT_ONCE = 20
GROWTH_KIB = 200 * 1024
ID = {"Get": "Execution.PipelineExecutionId"}
NAME = {"Std:Join": {"On": "-", "Values": ["load", ID]}}
# Writes what it was given below its execution's prefix, and answers with it, once the gate is open.
WAITS = """
import boto3, time
def handler(event, context):
    s3, number = boto3.client("s3"), event["number"]
    while s3.list_objects_v2(Bucket="gate").get("KeyCount", 0) == 0:
        time.sleep(0.2)
    s3.put_object(Bucket="results", Key=event["prefix"] + "/answer", Body=str(number).encode())
    return {"answer": number}
"""


@pytest.fixture(scope="module")
def pipeline(account: Account, jobs: JobsAccount) -> str:
    """A step that waits for an object in the bucket `gate` and answers with the execution's
    parameter; a model and a configuration.
    """
    for bucket in ("gate", "results"):
        account.client("s3").create_bucket(Bucket=bucket)
    role = account.role({"Service": "sagemaker.amazonaws.com"})
    step = {
        "Name": "Answer",
        "Type": "Lambda",
        "FunctionArn": account.function_arn(account.function(WAITS, Timeout=300)),
        "Arguments": {"number": {"Get": "Parameters.Number"}, "prefix": NAME},
        "OutputParameters": [{"OutputName": "answer", "OutputType": "Integer"}],
    }
    served = {"PrimaryContainer": {"Image": INFERENCE_IMAGE}, "ExecutionRoleArn": role}
    variant = {
        "VariantName": "AllTraffic",
        "InstanceType": "ml.m5.large",
        "ModelName": {"Get": "Steps.Keep.ModelName"},
    }
    config = {"EndpointConfigName": NAME, "ProductionVariants": [variant]}
    steps: list[dict[str, Any]] = [
        step,
        {"Name": "Keep", "Type": "Model", "DependsOn": ["Answer"], "Arguments": served},
        {"Name": "Configure", "Type": "EndpointConfig", "Arguments": config},
    ]
    jobs.deploy_pipeline("load", steps, Parameters=[{"Name": "Number", "Type": "Integer"}])
    return "load"


def start(jobs: JobsAccount, number: int, limit_s: float = 0) -> str:
    """Start an execution, when there is a place for it."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            answer = jobs.sagemaker.start_pipeline_execution(
                PipelineName="load",
                PipelineParameters=[{"Name": "Number", "Value": str(number)}],
                ClientRequestToken=f"{number:032d}",
            )
        except ClientError as refused:
            code = refused.response["Error"]["Code"]
            if code != "ResourceLimitExceeded" or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return str(answer["PipelineExecutionArn"])


def result(jobs: JobsAccount, arn: str) -> dict[str, Any]:
    """Return what an execution came to, once it has ended."""
    execution = jobs.execution_ended(arn, timeout_s=300)
    steps, prefix = jobs.steps(execution), f"load-{arn.rpartition('/')[2]}"
    config = steps["Configure"]["Metadata"]["EndpointConfig"]["Arn"].rpartition("/")[2]
    described = jobs.sagemaker.describe_endpoint_config(EndpointConfigName=config)
    model = described["ProductionVariants"][0]["ModelName"]
    written = jobs.client("s3").get_object(Bucket="results", Key=f"{prefix}/answer")["Body"].read()
    return {
        "status": execution["PipelineExecutionStatus"],
        "answer": steps["Answer"]["Metadata"]["Lambda"]["OutputParameters"][0]["Value"],
        "written": written.decode(),
        "config": config.startswith(f"{prefix}-"),
        "model": model.startswith(f"pipelines-{arn.rpartition('/')[2]}-Keep"),
    }


@pytest.mark.usefixtures("pipeline")
def test_as_many_as_allowed_run_at_once_and_each_has_its_own_names_prefix_and_answer(
    jobs: JobsAccount, emulator_pid: int
) -> None:
    first = [start(jobs, number) for number in range(AT_ONCE)]
    with growth_below(GROWTH_KIB, emulator_pid):
        with pytest.raises(ClientError, match=f"concurrent pipeline executions is {AT_ONCE}"):
            start(jobs, AT_ONCE)
        jobs.client("s3").put_object(Bucket="gate", Key="open", Body=b"")
        rest = [start(jobs, number, limit_s=300) for number in range(AT_ONCE, STARTS)]
        results = [result(jobs, arn) for arn in (*first, *rest)]
    own = {"status": "Succeeded", "config": True, "model": True}
    assert results == [
        own | {"answer": json.dumps(number), "written": str(number)} for number in range(STARTS)
    ]
    assert len({*first, *rest}) == STARTS
    assert jobs.client("s3").list_objects_v2(Bucket="results")["KeyCount"] == STARTS
