"""The roles of a workload with channels and an image of its own, and what a manifest starts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk.assertions import Template

from shoal.constructs.app import Deployment
from shoal.launch import launch_of
from shoal.settings.loading.loader import load_environment
from stacks.platform import EnvironmentStage
from tests.app import ShoalApp
from tests.letters import ENVIRONMENT, add_letters
from tests.repository import link_checkout
from tests.stacks.reading import properties, statements

ARTIFACTS = "shoal-letters-lab-artifacts-111122223333-us-east-1"
DATA = "shoal-letters-lab-data-111122223333-us-east-1"
TEXT = f"""{ENVIRONMENT}data:
  on_manifest: {{}}
  channels:
    base_model: {{uri: "s3://{ARTIFACTS}/models/{"0" * 64}/"}}
"""
ROLE = "shoal-letters-lab-us-east-1-"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]) -> Template:
    root = link_checkout(tmp_path_factory.mktemp("letters"))
    add_letters(root)
    for file in (root / "environments").glob("*.yaml"):
        file.unlink()
    (root / "environments" / "lab.yaml").write_text(TEXT)
    environment = load_environment("lab", root)
    outdir = str(tmp_path_factory.mktemp("cdk.out"))
    app = ShoalApp(outdir=outdir, context=cdk_context, checked=False)
    launch = launch_of(environment, root)
    return Template.from_stack(
        EnvironmentStage(app, workloads=[Deployment(environment, launch)], root=root)
        .workloads[0]
        .pipeline
    )


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
    (variables,) = [
        each["Environment"]["Variables"]
        for each in properties(template, "AWS::Lambda::Function")
        if each["FunctionName"] == "shoal-letters-lab-start"
    ]
    assert json.loads(variables["MANIFEST_PARAMETERS"]) == {
        "DataManifest": "{manifest}",
        "HoldoutDataUri": "{folder}/holdout/",
        "PagesDataUri": "{folder}/pages/",
    }
