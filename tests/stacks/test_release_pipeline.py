"""CodePipeline's variant: off by default, every gate passed, the connection usable under both
names, the environments as `cdk deploy` has them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template
from aws_cdk.cx_api import CloudAssembly

from config.delivery import Delivery
from config.loader import load_environment
from config.settings import Environment
from shoal.verbs.assembly import stacks_of
from stacks.app import ShoalApp
from stacks.release_pipeline_stack import CLI_VERSION
from tests.repository import ROOT
from tests.stacks.reading import properties

CONNECTION = (
    "arn:aws:codeconnections:us-east-1:111122223333:connection/11111111-2222-3333-4444-555555555555"
)
STACK = "release-pipeline-dev"


def _environments() -> list[Environment]:
    """Return the environments of the files, dev with a connection; prod before staging, so that the
    order must come from `promoted_from`.
    """
    delivery = Delivery(
        repository="my-team@1/my-models@2", connection_arn=CONNECTION, branch="release"
    )
    dev, prod, staging = (load_environment(name, ROOT) for name in ("dev", "prod", "staging"))
    return [dev.model_copy(update={"delivery": delivery}), prod, staging]


@pytest.fixture(scope="module")
def assembly(
    tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]
) -> CloudAssembly:
    """With the gates on: cdk-nag, CloudFormation's schemas and our own rules."""
    app = ShoalApp(outdir=str(tmp_path_factory.mktemp("cdk.out")), context=cdk_context)
    for environment in _environments():
        app.add_environment([environment], root=ROOT)
    app.add_release_pipelines(_environments())
    return app.synth()


@pytest.fixture(scope="module")
def template(assembly: CloudAssembly) -> Template:
    return Template.from_json(assembly.get_stack_artifact(STACK).template)


def _stages(template: Template) -> dict[str, list[dict[str, Any]]]:
    (pipeline,) = properties(template, "AWS::CodePipeline::Pipeline")
    return {stage["Name"]: stage["Actions"] for stage in pipeline["Stages"]}


def test_without_a_connection_there_is_no_pipeline(
    tmp_path: Path, cdk_context: dict[str, Any]
) -> None:
    app = ShoalApp(outdir=str(tmp_path / "cdk.out"), context=cdk_context, checked=False)
    app.add_release_pipelines([load_environment(name, ROOT) for name in ("dev", "staging", "prod")])
    assert list(app.synth().stacks) == []


def test_the_environments_are_deployed_in_the_order_of_releases_each_after_an_approval(
    template: Template,
) -> None:
    stages = _stages(template)
    assert list(stages) == ["Source", "Build", "UpdatePipeline", "Assets", "dev", "staging", "prod"]
    approvals = {
        name: [each["Name"] for each in actions if each["ActionTypeId"]["Category"] == "Approval"]
        for name, actions in stages.items()
    }
    assert (approvals["dev"], approvals["staging"], approvals["prod"]) == (
        [],
        ["Release-staging"],
        ["Release-prod"],
    )


def test_the_source_is_the_repository_through_the_connection(template: Template) -> None:
    (source,) = _stages(template)["Source"]
    expected = {
        "ConnectionArn": CONNECTION,
        "FullRepositoryId": "my-team/my-models",
        "BranchName": "release",
    }
    assert expected.items() <= source["Configuration"].items()


def test_the_source_may_use_the_connection_under_its_old_and_its_new_name(
    template: Template,
) -> None:
    statements = [
        each
        for policy in properties(template, "AWS::IAM::Policy")
        for each in policy["PolicyDocument"]["Statement"]
    ]
    allowed = {each["Action"] for each in statements if each["Resource"] == CONNECTION}
    assert allowed == {"codestar-connections:UseConnection", "codeconnections:UseConnection"}


def test_builds_use_the_pinned_cli_and_trust_this_account_only(template: Template) -> None:
    assert f"aws-cdk@{CLI_VERSION}" in json.dumps(properties(template, "AWS::CodeBuild::Project"))
    assert json.loads((ROOT / "package.json").read_text())["dependencies"]["aws-cdk"] == CLI_VERSION
    trusts = [
        statement
        for each in properties(template, "AWS::IAM::Role")
        for statement in each["AssumeRolePolicyDocument"]["Statement"]
    ]
    builds = [
        each for each in trusts if each["Principal"].get("Service") == "codebuild.amazonaws.com"
    ]
    assert builds
    assert all(
        each["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}
        for each in builds
    )


def test_what_it_deploys_are_the_stages_of_cdk_deploy(
    assembly: CloudAssembly, tmp_path: Path, cdk_context: dict[str, Any]
) -> None:
    """Every prepared change set names a template of the assembly that `cdk deploy staging/*`
    reads.
    """
    app = ShoalApp(outdir=str(tmp_path / "cdk.out"), context=cdk_context, checked=False)
    app.add_environment([load_environment("staging", ROOT)], root=ROOT)
    app.synth()
    alone = {stack.name: stack.template for stack in stacks_of(tmp_path / "cdk.out", "staging")}
    assert {
        stack.name: stack.template for stack in stacks_of(Path(assembly.directory), "staging")
    } == alone
    actions = _stages(Template.from_json(assembly.get_stack_artifact(STACK).template))["staging"]
    paths = {
        each["Configuration"]["TemplatePath"].partition("::")[2]
        for each in actions
        if "TemplatePath" in each.get("Configuration", {})
    }
    assert len(paths) == len(alone)
    assert all((Path(assembly.directory) / path).is_file() for path in paths)
