"""The pipeline's stack: its definition, schedules, channels and plan. The stack that watches it:
the sweeper, the alarms and who hears them, the budget, the dashboard.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.cx_api import CloudFormationStackArtifact

from local_kit.tables import rows
from shoal.constructs.pipeline.training_pipeline import images
from shoal.constructs.schedules import manifest_variables
from shoal.constructs.template_rules import as_list
from shoal.costs.plan import plan
from shoal.pipelines.requests import FABRIC_METRICS
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.channels import OnManifest
from tests.repository import ENVIRONMENT, ROOT, add_letters, link_checkout
from tests.stacks.conftest import EVERYTHING, MakeStage, TemplateOf, variant
from tests.stacks.reading import (
    Template,
    definition,
    named,
    only,
    properties,
    resources,
    statements,
    template_of_stack,
)


def _branch(pipeline: Template) -> dict[str, dict[str, Any]]:
    gate = definition(pipeline)["Steps"][-1]
    return {step["Name"]: step for step in gate["Arguments"]["IfSteps"]}


def test_the_definition_in_the_template_is_json_with_all_steps(pipeline: Template) -> None:
    assert [step["Name"] for step in definition(pipeline)["Steps"]] == ["Train", "Evaluate", "Gate"]
    assert [*_branch(pipeline)] == [
        *("Seal", "Register", "CreateModel", "CreateEndpointConfig", "CreateEndpoint"),
        *("SmokeTest", "Teardown"),
    ]


def test_training_gets_the_one_training_subnet(pipeline: Template) -> None:
    (subnet,) = definition(pipeline)["Steps"][0]["Arguments"]["VpcConfig"]["Subnets"]
    assert "TrainingSubnet" in subnet


def test_lambda_steps_call_the_functions_of_this_stack(pipeline: Template) -> None:
    called = [
        json.loads(_branch(pipeline)[name]["FunctionArn"])["Fn::GetAtt"][0]
        for name in ("Seal", "SmokeTest", "Teardown")
    ]
    functions = resources(pipeline, "AWS::Lambda::Function")
    assert [functions[name]["Properties"]["FunctionName"] for name in called] == [
        "shoal-mnist-dev-seal",
        "shoal-mnist-dev-smoke-test",
        "shoal-mnist-dev-teardown",
    ]


def test_the_pipeline_waits_for_the_policies_of_every_role_it_uses(pipeline: Template) -> None:
    (resource,) = resources(pipeline, "AWS::SageMaker::Pipeline").values()
    policies = set(resources(pipeline, "AWS::IAM::Policy"))
    assert len(policies) == 8
    assert policies <= set(resource["DependsOn"])


def test_images_are_found_in_branches_too(pipeline: Template) -> None:
    (image,) = images(definition(pipeline), "Model")
    assert "/pytorch-inference:" in image


@pytest.mark.parametrize("part", ["pipeline", "data"])
def test_every_function_is_python_with_its_own_log_group(
    template_of: TemplateOf, part: str
) -> None:
    template = template_of("dev", part)
    functions = properties(template, "AWS::Lambda::Function")
    groups = [each["LogGroupName"] for each in properties(template, "AWS::Logs::LogGroup")]
    assert {entry["Runtime"] for entry in functions} == {"python3.12"}
    assert sorted(groups) == sorted(f"/aws/lambda/{entry['FunctionName']}" for entry in functions)


def test_a_message_is_hidden_while_it_is_worked_on_and_tried_for_as_long_as_endpoints_are_creating(
    pipeline: Template,
) -> None:
    """The function doubles the pause up to 15 minutes
    (packages/shoal/tests/functions/test_teardown.py)."""
    (queue,) = [
        entry for entry in properties(pipeline, "AWS::SQS::Queue") if "RedrivePolicy" in entry
    ]
    function = named(pipeline, "AWS::Lambda::Function", "shoal-mnist-dev-teardown")
    assert queue["VisibilityTimeout"] >= function["Timeout"]
    first_s = int(function["Environment"]["Variables"]["RETRY_AFTER_S"])
    tries = queue["RedrivePolicy"]["maxReceiveCount"]
    assert sum(min(first_s * 2**tried, 900) for tried in range(tries)) >= 2 * 60 * 60


@pytest.mark.parametrize(("part", "custom"), rows(__file__, "cases.yaml", "custom_resources"))
def test_no_template_brings_a_function_of_the_cdk(
    template_of: TemplateOf, part: str, custom: list[str]
) -> None:
    types = {resource["Type"] for resource in template_of("dev", part)["Resources"].values()}
    assert {kind for kind in types if "Custom" in kind} == {*custom}


def _functions(template: Template) -> set[str]:
    functions = properties(template, "AWS::Lambda::Function")
    return {each["FunctionName"].removeprefix("shoal-mnist-") for each in functions}


def test_only_a_gate_against_the_registry_makes_the_function_that_compares(
    template_of: TemplateOf,
) -> None:
    compared = template_of("compared", "pipeline")
    assert "compared-compare" in _functions(compared)
    assert "Compare" in [step["Name"] for step in definition(compared)["Steps"]]
    assert "dev-compare" not in _functions(template_of("dev", "pipeline"))


def test_without_an_endpoint_there_is_no_function_and_no_role_for_one(
    template_of: TemplateOf,
) -> None:
    template = template_of("registered", "pipeline")
    assert _functions(template) == {"registered-seal", "registered-empty-registry"}
    roles = {each["RoleName"] for each in properties(template, "AWS::IAM::Role")}
    actors = ("training", "evaluation", "pipeline", "seal", "empty-registry")
    assert roles == {f"shoal-mnist-registered-us-east-1-{actor}" for actor in actors}
    allowed = json.dumps(statements(template, "shoal-mnist-registered-us-east-1-pipeline"))
    assert "sagemaker:CreateModelPackage" in allowed
    assert 'sagemaker:CreateModel"' not in allowed
    assert "sagemaker:CreateEndpoint" not in allowed


def test_a_job_gets_the_names_of_its_secrets_and_only_its_role_may_ask_for_them(
    template_of: TemplateOf,
) -> None:
    template = template_of("secret", "pipeline")
    assert definition(template)["Steps"][0]["Arguments"]["Environment"] == {
        "SHOAL_SECRET_HF_TOKEN": "team/hf",
        "SHOAL_SECRET_OTHER": "team/hf",
    }
    (asking,) = [
        policy["PolicyName"]
        for policy in properties(template, "AWS::IAM::Policy")
        if "secretsmanager" in str(policy)
    ]
    assert "Training" in asking
    for part in ("pipeline", "network"):
        assert "secretsmanager" not in str(template_of("dev", part)["Resources"])


def test_a_schedule_that_ends_has_no_alarm(template_of: TemplateOf) -> None:
    alarms = properties(template_of("scheduled", "monitoring"), "AWS::CloudWatch::Alarm")
    assert not [each for each in alarms if "schedule-ending" in each["AlarmName"]]


@pytest.mark.parametrize(("declared", "channels"), rows(__file__, "cases.yaml", "manifests"))
def test_a_pipeline_of_ones_own_gets_the_manifests_channels_that_it_declares(
    declared: list[str], channels: dict[str, str]
) -> None:
    settings = load_environment("dev", ROOT)
    data = settings.data.model_copy(update={"on_manifest": OnManifest(file="ready.json")})
    own = settings.model_copy(update={"data": data, "pipeline": "mine:build"})
    variables = manifest_variables(Names(own), declared)
    parameters = {"DataManifest": "{manifest}", **channels}
    assert json.loads(variables["MANIFEST_PARAMETERS"]) == parameters


ARTIFACTS = "shoal-letters-lab-artifacts-111122223333-us-east-1"
DATA = "shoal-letters-lab-data-111122223333-us-east-1"
TEXT = f"""{ENVIRONMENT}data:
  on_manifest: {{}}
  channels:
    base_model: {{uri: "s3://{ARTIFACTS}/models/{"0" * 64}/"}}
"""
ROLE = "shoal-letters-lab-us-east-1-"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, make_stage: MakeStage) -> Template:
    root = link_checkout(tmp_path_factory.mktemp("letters"))
    add_letters(root)
    for file in (root / "environments").glob("*.yaml"):
        file.unlink()
    (root / "environments" / "lab.yaml").write_text(TEXT)
    return template_of_stack(make_stage("lab", root).workloads[0].pipeline)


@pytest.mark.parametrize("actor", ["training", "evaluation"])
def test_a_job_pulls_the_image_of_its_own_and_no_other(template: Template, actor: str) -> None:
    pull = statements(template, ROLE + actor)["PullImage"]
    assert pull["Resource"] == "arn:aws:ecr:us-east-1:111122223333:repository/letters"


def test_training_reads_datasets_and_the_sealed_models_that_a_channel_names(
    template: Template,
) -> None:
    allowed = statements(template, f"{ROLE}training")
    assert allowed["ReadData"]["Resource"] == f"arn:aws:s3:::{DATA}/datasets/*"
    assert allowed["ReadArtifacts"]["Resource"] == f"arn:aws:s3:::{ARTIFACTS}/models/*"


def test_the_evaluation_reads_no_sealed_models(template: Template) -> None:
    assert "/models/" not in json.dumps(statements(template, f"{ROLE}evaluation"))


def test_a_manifest_moves_the_channels_of_the_dataset_only(template: Template) -> None:
    function = named(template, "AWS::Lambda::Function", "shoal-letters-lab-start")
    variables = function["Environment"]["Variables"]
    assert json.loads(variables["MANIFEST_PARAMETERS"]) == {
        "DataManifest": "{manifest}",
        "HoldoutDataUri": "{folder}/holdout/",
        "PagesDataUri": "{folder}/pages/",
    }


@pytest.mark.parametrize("name", ["dev", "prod", "full"])
def test_the_plan_names_the_stacks_of_an_environment_after_those_that_they_need(
    tmp_path: Path, make_stage: MakeStage, name: str
) -> None:
    """The assembly's manifest has the dependencies that the CLI follows."""
    sections = {"full": EVERYTHING}.get(name)
    environment = variant(tmp_path, name, **sections) if sections else load_environment(name, ROOT)
    shown = [stack.name for stack in plan(environment).stacks]
    artifacts = make_stage(environment).synth().stacks
    assert {*shown} == {each.stack_name for each in artifacts}
    needs = [
        (shown.index(each.stack_name), shown.index(other.stack_name))
        for each in artifacts
        for other in each.dependencies
        if isinstance(other, CloudFormationStackArtifact)
    ]
    assert needs
    assert [pair for pair in needs if pair[0] < pair[1]] == []


def dashboard(template: Template) -> dict[str, Any]:
    parts = only(template, "AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
    document: dict[str, Any] = json.loads(
        "".join(part if isinstance(part, str) else part["Fn::GetAtt"][0] for part in parts)
    )
    return document


def graphs(template: Template) -> dict[str, list[Any]]:
    """Return the series of each graph of the dashboard, by its title."""
    return {
        each["properties"]["title"]: each["properties"]["metrics"]
        for each in dashboard(template)["widgets"]
        if each["type"] == "metric"
    }


def test_what_makes_pages_writes_nothing_but_pages_and_its_own_log(monitoring: Template) -> None:
    allowed = statements(monitoring, "shoal-mnist-dev-us-east-1-pages")
    reads = re.compile(r"\w+:(Describe|List|Get|Filter)")
    actions = {sid: as_list(entry["Action"]) for sid, entry in allowed.items()}
    writes = {
        sid: others
        for sid, each in actions.items()
        if (others := [action for action in each if not reads.match(action)])
    }
    assert writes == {
        "WriteOwnLog": ["logs:CreateLogStream", "logs:PutLogEvents"],
        "KeepPages": ["s3:PutObject"],
        "UseKey": ["kms:Decrypt", "kms:GenerateDataKey"],
    }
    bucket = "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1"
    assert allowed["KeepPages"]["Resource"] == f"{bucket}/runs/*"


def test_what_an_execution_starts_carries_the_tag_that_the_budget_counts(
    template_of: TemplateOf,
) -> None:
    budget = only(template_of("told", "monitoring"), "AWS::Budgets::Budget")
    (counted,) = budget["Budget"]["CostFilters"]["TagKeyValue"]
    key, value = counted.removeprefix("user:").split("$")
    train, evaluate, *_ = definition(template_of("told", "pipeline"))["Steps"]
    for step in (train, evaluate):
        assert {"Key": key, "Value": value} in step["Arguments"]["Tags"]


def test_the_dashboard_shows_every_step_of_the_pipeline(
    monitoring: Template, pipeline: Template
) -> None:
    steps = [series[5] for series in graphs(monitoring)["Duration of steps (s)"] if series[1:]]
    assert {"Train", "CreateEndpoint", "Teardown", "GateFailed"} <= set(steps)
    assert steps[:2] == [step["Name"] for step in definition(pipeline)["Steps"]][:2]


def test_durations_are_shown_in_seconds_and_read_hidden(monitoring: Template) -> None:
    read, shown = graphs(monitoring)["Duration of runs (s)"]
    assert (read[-1]["visible"], shown[0]["expression"]) == (False, f"{read[-1]['id']} / 1000")
    lines = [line for (line,) in graphs(monitoring)["Endpoint latency (ms)"]]
    assert [line["label"] for line in lines] == ["p50", "p99"]
    assert all(re.fullmatch(r"SEARCH\(.* 60\) / 1000", line["expression"]) for line in lines)


def test_what_an_instance_type_lacks_has_no_graph(
    template_of: TemplateOf, monitoring: Template
) -> None:
    plain = graphs(template_of("secret", "monitoring"))  # on CPUs
    assert set(graphs(monitoring)) - set(plain) == {
        "All-reduce (GB/s)",
        "GPU memory (%, 100 per GPU)",
        "GPU use (%, 100 per GPU)",
        "Ranks all on EFA (1 = yes)",
    }


def test_the_dashboard_finds_the_metrics_that_training_defines(monitoring: Template) -> None:
    text = json.dumps(dashboard(monitoring))
    own = load_environment("dev", ROOT).training.metrics
    assert "test:accuracy" in own
    assert all(
        f'MetricName=\\\\\\"{name}\\\\\\"' in text or f'MetricName=\\"{name}\\"' in text
        for name in (*own, *FABRIC_METRICS)
    )


def test_the_same_number_of_two_datasets_is_one_graph(monitoring: Template) -> None:
    numbers = ("Loss", "Accuracy", "Images per second (images/s)")
    assert [len(graphs(monitoring)[each]) for each in numbers] == [2, 1, 1]


def test_widgets_fill_the_grid_without_covering_each_other(monitoring: Template) -> None:
    widgets = dashboard(monitoring)["widgets"]
    cells = [
        (x, y)
        for each in widgets
        for x in range(each["x"], each["x"] + each["width"])
        for y in range(each["y"], each["y"] + each["height"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))


def test_the_dashboard_shows_every_alarm(monitoring: Template) -> None:
    shown = dashboard(monitoring)["widgets"][0]["properties"]["alarms"]
    assert sorted(shown) == sorted(resources(monitoring, "AWS::CloudWatch::Alarm"))


def test_without_an_endpoint_the_dashboard_and_the_alarms_name_nothing_of_one(
    template_of: TemplateOf,
) -> None:
    template, name = template_of("registered", "monitoring"), "shoal-mnist-registered"
    text = json.dumps(only(template, "AWS::CloudWatch::Dashboard"))
    assert f"{name}-smoke-test" not in text
    assert "AWS/SageMaker" not in text
    alarms = {each["AlarmName"] for each in properties(template, "AWS::CloudWatch::Alarm")}
    assert {f"{name}-execution-failed", f"{name}-seal-errors", f"{name}-sweep-missed"} <= alarms
    assert {f"{name}-not-torn-down", f"{name}-teardown-errors"} & alarms == set()
