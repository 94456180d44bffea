"""As many executions at once as an account may have, and more that wait for a place: each gets its
own names, prefix and result, and memory stays bounded.

`make test` starts SHOAL_LOAD (30) executions; docs/results.md has the figures of more.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account

pytestmark = pytest.mark.nightly

STARTS = int(os.environ.get("SHOAL_LOAD", "30"))
AT_ONCE = 20
GROWTH_KIB = 200 * 1024
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"  # noqa: E501
ID: dict[str, str] = {"Get": "Execution.PipelineExecutionId"}
NAME = {"Std:Join": {"On": "-", "Values": ["load", ID]}}
# Writes what it was given below its execution's prefix, and answers with it, once the gate is open.
WAITS = """
import boto3, time
def handler(event, context):
    s3 = boto3.client("s3")
    while s3.list_objects_v2(Bucket="gate").get("KeyCount", 0) == 0:
        time.sleep(0.2)
    s3.put_object(Bucket="results", Key=event["prefix"] + "/answer", Body=str(event["number"]).encode())
    return {"answer": event["number"]}
"""  # noqa: E501


@pytest.fixture(scope="module")
def pipeline(account: Account) -> str:
    """A step that waits for an object in the bucket `gate` and answers with the execution's
    parameter; a model and a configuration.
    """
    for bucket in ("gate", "results"):
        account.client("s3").create_bucket(Bucket=bucket)
    function = account.function(WAITS, Timeout=300)
    arn = account.client("lambda").get_function(FunctionName=function)["Configuration"][
        "FunctionArn"
    ]
    step = {
        "Name": "Answer",
        "Type": "Lambda",
        "FunctionArn": arn,
        "Arguments": {"number": {"Get": "Parameters.Number"}, "prefix": NAME},
        "OutputParameters": [{"OutputName": "answer", "OutputType": "Integer"}],
    }
    role = account.role({"Service": "sagemaker.amazonaws.com"})
    served = {"PrimaryContainer": {"Image": IMAGE, "Environment": {}}, "ExecutionRoleArn": role}
    model = {"Name": "Keep", "Type": "Model", "DependsOn": ["Answer"], "Arguments": served}
    variant: dict[str, Any] = {
        "VariantName": "AllTraffic",
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": 1,
    }
    variant |= {"ModelName": {"Get": "Steps.Keep.ModelName"}}
    config = {
        "Name": "Configure",
        "Type": "EndpointConfig",
        "Arguments": {"EndpointConfigName": NAME, "ProductionVariants": [variant]},
    }
    parameters = [{"Name": "Number", "Type": "Integer"}]
    definition = {
        "Version": "2020-12-01",
        "Metadata": {},
        "Parameters": parameters,
        "Steps": [step, model, config],
    }
    account.client("sagemaker").create_pipeline(
        PipelineName="load",
        PipelineDefinition=json.dumps(definition),
        RoleArn=role,
        ClientRequestToken="p" * 32,
    )
    return "load"


def start(account: Account, number: int) -> str:
    parameters = [{"Name": "Number", "Value": str(number)}]
    answer = account.client("sagemaker").start_pipeline_execution(
        PipelineName="load", PipelineParameters=parameters, ClientRequestToken=f"{number:032d}"
    )
    return str(answer["PipelineExecutionArn"])


def start_when_there_is_a_place(account: Account, number: int, limit_s: float = 300) -> str:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return start(account, number)
        except ClientError as refused:
            if (
                refused.response["Error"]["Code"] != "ResourceLimitExceeded"
                or time.monotonic() > deadline
            ):
                raise
            time.sleep(0.1)


def ended(account: Account, arn: str, limit_s: float = 300) -> dict[str, Any]:
    deadline = time.monotonic() + limit_s
    sagemaker = account.client("sagemaker")
    while (found := sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn))[
        "PipelineExecutionStatus"
    ] == "Executing":
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    steps = {
        each["StepName"]: each
        for each in sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)[
            "PipelineExecutionSteps"
        ]
    }
    outputs = {
        each["Name"]: each["Value"]
        for each in steps["Answer"]["Metadata"]["Lambda"]["OutputParameters"]
    }
    config = steps["Configure"]["Metadata"]["EndpointConfig"]["Arn"].rpartition("/")[2]
    (variant,) = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    prefix = f"load-{arn.rpartition('/')[2]}"
    written = (
        account.client("s3")
        .get_object(Bucket="results", Key=f"{prefix}/answer")["Body"]
        .read()
        .decode()
    )
    return {
        "status": found["PipelineExecutionStatus"],
        "answer": outputs.get("answer"),
        "written": written,
        "config": config.startswith(f"{prefix}-"),
        "model": variant["ModelName"].startswith(f"pipelines-{arn.rpartition('/')[2]}-Keep"),
    }


def _configs(account: Account) -> Iterator[str]:
    pages = (
        account.client("sagemaker")
        .get_paginator("list_endpoint_configs")
        .paginate(NameContains="load-")
    )
    yield from (each["EndpointConfigName"] for page in pages for each in page["EndpointConfigs"])


def resident_kib(account: Account) -> int:
    pid = json.loads((account.state_dir / "emulator.json").read_text())["pid"]
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_as_many_as_allowed_run_at_once_and_each_has_its_own_names_prefix_and_answer(
    account: Account, pipeline: str
) -> None:
    first = [start(account, number) for number in range(AT_ONCE)]
    before = resident_kib(account)
    with pytest.raises(
        ClientError, match=f"limit of concurrent pipeline executions is {AT_ONCE}"
    ) as refused:
        start(account, AT_ONCE)
    assert refused.value.response["Error"]["Code"] == "ResourceLimitExceeded"
    account.client("s3").put_object(Bucket="gate", Key="open", Body=b"")
    rest = [start_when_there_is_a_place(account, number) for number in range(AT_ONCE, STARTS)]
    results = [ended(account, arn) for arn in (*first, *rest)]
    own = {"status": "Succeeded", "config": True, "model": True}
    assert results == [
        own | {"answer": str(number), "written": str(number)} for number in range(STARTS)
    ]
    assert account.client("s3").list_objects_v2(Bucket="results")["KeyCount"] == STARTS
    assert len(list(_configs(account))) == STARTS
    assert len({*first, *rest}) == STARTS
    print(f"load: {STARTS} executions, emulator {before} KiB -> {resident_kib(account)} KiB")
    assert resident_kib(account) - before < GROWTH_KIB
