"""A secret is readable by the training's role alone, and reachable from its subnet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template

from shoal.constructs.app import Deployment
from shoal.launch import launch_of
from stacks.platform import EnvironmentStage
from tests.app import ShoalApp
from tests.repository import ROOT
from tests.stacks.reading import definition, properties, statements
from tests.stacks.variants import variant

ARN = "arn:aws:secretsmanager:us-east-1:111122223333:secret:team/hf-??????"


def _stage(folder: Path, context: dict[str, Any], **sections: Any) -> EnvironmentStage:
    environment = variant(folder, "secret", **sections)
    app = ShoalApp(outdir=str(folder / "cdk.out"), context=context, checked=False)
    return EnvironmentStage(
        app, workloads=[Deployment(environment, launch_of(environment, ROOT))], root=ROOT
    )


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]
) -> EnvironmentStage:
    training = {"strategy": "torchrun", "instance_type": "ml.m5.xlarge"}
    secrets = {"HF_TOKEN": "team/hf", "OTHER": "team/hf"}
    return _stage(
        tmp_path_factory.mktemp("secret"), cdk_context, training=training | {"secrets": secrets}
    )


@pytest.fixture(scope="module")
def with_secret(stage: EnvironmentStage) -> Template:
    return Template.from_stack(stage.workloads[0].pipeline)


def test_the_trainings_role_reads_the_secret_and_no_other(with_secret: Template) -> None:
    granted = statements(with_secret, "shoal-mnist-secret-us-east-1-training")
    assert granted["ReadSecrets"]["Action"] == "secretsmanager:GetSecretValue"
    assert granted["ReadSecrets"]["Resource"] == ARN
    context = granted["DecryptSecrets"]["Condition"]
    assert context["StringLike"] == {"kms:EncryptionContext:SecretARN": [ARN]}
    assert context["StringEquals"] == {"kms:ViaService": "secretsmanager.us-east-1.amazonaws.com"}


def test_nobody_else_may_ask_secrets_manager(with_secret: Template) -> None:
    asking = [
        policy["PolicyName"]
        for policy in properties(with_secret, "AWS::IAM::Policy")
        if "secretsmanager" in str(policy)
    ]
    assert len(asking) == 1
    assert "Training" in asking[0]


def test_the_job_gets_the_name_and_nothing_more(with_secret: Template) -> None:
    train = definition(with_secret)["Steps"][0]["Arguments"]
    assert train["Environment"] == {
        "SHOAL_SECRET_HF_TOKEN": "team/hf",
        "SHOAL_SECRET_OTHER": "team/hf",
    }


def test_the_vpc_has_an_endpoint_for_it_and_has_none_without_a_secret(
    stage: EnvironmentStage, network: Template
) -> None:
    def services(template: Template) -> list[str]:
        endpoints = properties(template, "AWS::EC2::VPCEndpoint")
        return [str(each["ServiceName"]) for each in endpoints]

    name = "com.amazonaws.us-east-1.secretsmanager"
    assert name in services(Template.from_stack(stage.network))
    assert name not in services(network)


def test_without_a_secret_no_role_may_ask_secrets_manager(pipeline: Template) -> None:
    assert "secretsmanager" not in str(properties(pipeline, "AWS::IAM::Policy"))
