"""An environment whose pipeline is a user's own function, through the real CLI, stacks and
emulator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from shoal.verbs.target import Target
from tests.end_to_end.conftest import Checkout

PIPELINE = "shoal-mnist-mine"
ENVIRONMENT = """\
name: mine
account: "111122223333"
region: us-east-1
protect: false
pipeline: my_pipelines.hello:build
observability: {alert_emails: [team@example.com, boss@example.com], monthly_budget_usd: 500}
"""
MODULE = """
from pipelines.launch import resolve


def build(environment, infrastructure):
    vpc = {"Subnets": list(infrastructure.training_subnet_ids), "SecurityGroupIds": list(infrastructure.training_security_group_ids)}
    said = {"Std:Join": {"On": " ", "Values": ["hello", {"Get": "Parameters.Whom"}]}}
    image = resolve(environment.training, environment.region).evaluation_image_uri
    arguments = {
        "RoleArn": infrastructure.evaluation_role_arn,
        "AppSpecification": {"ImageUri": image, "ContainerEntrypoint": ["echo"], "ContainerArguments": [said]},
        "ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10}},
        "NetworkConfig": {"VpcConfig": vpc},
    }
    parameters = [{"Name": "Whom", "Type": "String", "DefaultValue": "world"}]
    return {"Version": "2020-12-01", "Parameters": parameters, "Steps": [{"Name": "Hello", "Type": "Processing", "Arguments": arguments}]}
"""  # noqa: E501


@pytest.fixture(scope="module")
def mine(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout with one environment of a user's."""
    own = checkout.with_environment(tmp_path_factory.mktemp("mine"), "mine", ENVIRONMENT)
    (own.root / "my_pipelines").mkdir()
    (own.root / "my_pipelines" / "hello.py").write_text(MODULE)
    yield own
    own.run("local", "down")


@pytest.fixture(scope="module")
def deployed(mine: Checkout) -> Target:
    """The account of the emulator that the environment is deployed to."""
    started = mine.run("local", "up", "mine", "--enforce-iam")
    assert started.exit_code == 0, started.output
    result = mine.run("deploy", "mine", "--local")
    assert result.exit_code == 0, result.output
    return mine.local_target


def test_a_budget_and_everybody_who_is_mailed_are_deployed(deployed: Target) -> None:
    """Here because this environment's deployment is the cheapest; the pipeline has no part in
    it.
    """
    (budget,) = deployed.client("budgets").describe_budgets(AccountId="111122223333")["Budgets"]
    told = {
        each["Endpoint"] for each in deployed.client("sns").list_subscriptions()["Subscriptions"]
    }
    assert (budget["BudgetName"], float(budget["BudgetLimit"]["Amount"])) == (PIPELINE, 500)
    assert {"team@example.com", "boss@example.com"} <= told


def test_what_is_deployed_is_the_functions_definition(deployed: Target) -> None:
    described = deployed.client("sagemaker").describe_pipeline(PipelineName=PIPELINE)
    (step,) = json.loads(described["PipelineDefinition"])["Steps"]
    assert step["Name"] == "Hello"
    assert step["Arguments"]["NetworkConfig"]["VpcConfig"]["Subnets"][0].startswith("subnet-")


def test_it_runs_with_the_parameters_it_declares(mine: Checkout, deployed: str) -> None:
    result = mine.run("run", "mine", "--local", "--follow", "--parameter", "Whom=Ada")
    assert result.exit_code == 0, result.output
    assert "hello Ada" in mine.run("logs", "mine", "latest", "Hello", "--local").output


def test_a_mistake_in_it_is_one_line_of_the_environment_file(mine: Checkout) -> None:
    module = mine.root / "my_pipelines" / "hello.py"
    module.write_text(MODULE.replace('"InstanceCount"', '"InstanceCuont"'))
    result = mine.run("check")
    assert result.exit_code == 2
    assert (
        'environments/mine.yaml:5: pipeline = "my_pipelines.hello:build": in the definition, Hello.'
        in result.output
    )
    assert "InstanceCuont: unknown field" in result.output
    module.write_text(MODULE)
