"""A definition with as many steps as a pipeline may have: all of them run, each with what the one
before it answered.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from local_kit.control import Account, eventually
from tests.load.memory import growth

pytestmark = pytest.mark.nightly

STEPS, CHAINS = 50, 2
GROWTH_KIB = 64 * 1024
ADDS_ONE = "def handler(event, context):\n    return {'number': event['number'] + 1}\n"


def step(function: str, chain: int, position: int) -> dict[str, Any]:
    """Adds one to what the step before it in its chain answered."""
    before = {"Get": f"Steps.S{chain}x{position - 1}.OutputParameters['number']"} if position else 0
    return {
        "Name": f"S{chain}x{position}",
        "Type": "Lambda",
        "FunctionArn": function,
        "Arguments": {"number": before},
        "OutputParameters": [{"OutputName": "number", "OutputType": "Integer"}],
    }


def status(account: Account, arn: str) -> str:
    return str(
        account.client("sagemaker").describe_pipeline_execution(PipelineExecutionArn=arn)[
            "PipelineExecutionStatus"
        ]
    )


def test_a_definition_of_fifty_steps_runs_to_its_end(account: Account, emulator_pid: int) -> None:
    sagemaker = account.client("sagemaker")
    function = account.client("lambda").get_function(FunctionName=account.function(ADDS_ONE))[
        "Configuration"
    ]["FunctionArn"]
    steps = [
        step(function, chain, position)
        for chain in range(CHAINS)
        for position in range(STEPS // CHAINS)
    ]
    definition = json.dumps(
        {"Version": "2020-12-01", "Metadata": {}, "Parameters": [], "Steps": steps}
    )
    role = account.role({"Service": "sagemaker.amazonaws.com"})
    sagemaker.create_pipeline(
        PipelineName="fifty",
        PipelineDefinition=definition,
        RoleArn=role,
        ClientRequestToken="f" * 32,
    )
    begun = time.monotonic()
    with growth(emulator_pid) as grown:
        arn = sagemaker.start_pipeline_execution(PipelineName="fifty", ClientRequestToken="s" * 32)[
            "PipelineExecutionArn"
        ]
        assert eventually(lambda: status(account, arn) != "Executing", 180)
        assert status(account, arn) == "Succeeded"
    took_s = time.monotonic() - begun
    pages = sagemaker.get_paginator("list_pipeline_execution_steps").paginate(
        PipelineExecutionArn=arn
    )
    done = {each["StepName"]: each for page in pages for each in page["PipelineExecutionSteps"]}
    assert {each["StepStatus"] for each in done.values()} == {"Succeeded"}
    assert sorted(done) == sorted(each["Name"] for each in steps)
    for chain in range(CHAINS):
        (answer,) = done[f"S{chain}x{STEPS // CHAINS - 1}"]["Metadata"]["Lambda"][
            "OutputParameters"
        ]
        assert answer["Value"] == str(STEPS // CHAINS)
    print(
        f"load: {STEPS} steps in {took_s:.1f} s, {took_s / STEPS:.3f} s each; the emulator grew by"
        f" {grown.kib} KiB"
    )
    assert grown.kib < GROWTH_KIB
