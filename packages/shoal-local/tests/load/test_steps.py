"""A definition with as many steps as a pipeline may have: all of them run, each with what the one
before it answered.
"""

from __future__ import annotations

from typing import Any

import pytest

from local_kit.control import Account
from local_kit.sagemaker_account import Account as JobsAccount
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


def test_a_definition_of_fifty_steps_runs_to_its_end(
    account: Account, jobs: JobsAccount, emulator_pid: int
) -> None:
    length = STEPS // CHAINS
    function = account.function_arn(account.function(ADDS_ONE))
    jobs.deploy_pipeline(
        "fifty",
        [step(function, chain, place) for chain in range(CHAINS) for place in range(length)],
    )
    with growth(emulator_pid) as grown:
        execution = jobs.execute("fifty", timeout_s=180)
    assert execution["PipelineExecutionStatus"] == "Succeeded"
    answers = {
        name: each["Metadata"]["Lambda"]["OutputParameters"][0]["Value"]
        for name, each in jobs.steps(execution).items()
    }
    assert answers == {
        f"S{chain}x{place}": str(place + 1) for chain in range(CHAINS) for place in range(length)
    }
    assert grown.kib < GROWTH_KIB
