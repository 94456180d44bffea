"""The pipeline's Lambda steps and the functions agree: what a step sends is enough, and what it
expects is returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment
from tests.functions.fake_sagemaker import ARN, FakeSageMaker
from tests.functions.invocation import invoke
from tests.functions.loopback import serving
from tests.functions.test_seal import EVENT, RESULT
from tests.functions.test_smoke_test import CONTENT, JOB, PACKAGE, Endpoint
from tests.repository import ROOT

# What the service puts in for expressions, by the step's argument.
RESOLVED = {
    "endpoint_name": "shoal-mnist-dev-abcdefghijkl",
    "training_job_name": JOB,
    "content_sha256": CONTENT,
    "pipeline_execution_arn": f"{ARN}pipeline/shoal-mnist-dev/execution/abcdefghijkl",
}


@pytest.fixture(scope="module")
def steps() -> dict[str, dict[str, Any]]:
    """The Lambda steps of the dev environment's definition, by name."""
    environment = load_environment("dev", ROOT)
    definition = check(environment).definition
    return {step["Name"]: step for step in _all(definition["Steps"]) if step["Type"] == "Lambda"}


def _all(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for step in steps:
        yield step
        yield from _all(step.get("Arguments", {}).get("IfSteps", []))


def _event(step: dict[str, Any]) -> dict[str, Any]:
    return {name: RESOLVED.get(name, value) for name, value in step["Arguments"].items()}


def _expected(step: dict[str, Any]) -> set[str]:
    return {output["OutputName"] for output in step["OutputParameters"]}


def test_the_seal_understands_its_step_and_answers_every_output(
    steps: dict[str, dict[str, Any]],
) -> None:
    assert steps["Seal"]["Arguments"].keys() == EVENT.keys()
    assert _expected(steps["Seal"]) == RESULT.keys()


def test_the_smoke_test_understands_its_step_and_answers_every_output(
    steps: dict[str, dict[str, Any]],
) -> None:
    with serving(Endpoint().answer) as url:
        outcome = invoke(PACKAGE, _event(steps["SmokeTest"]), endpoint_url=url, module="step")
    assert not outcome.error
    assert _expected(steps["SmokeTest"]) <= outcome.result.keys()


def test_teardown_understands_its_step_and_answers_every_output(
    steps: dict[str, dict[str, Any]],
) -> None:
    with serving(FakeSageMaker().answer) as url:
        outcome = invoke(
            "teardown",
            _event(steps["Teardown"]),
            endpoint_url=url,
            environment={"PIPELINE_NAME": "shoal-mnist-dev"},
            module="teardown",
        )
    assert not outcome.error
    assert _expected(steps["Teardown"]) <= outcome.result.keys()
