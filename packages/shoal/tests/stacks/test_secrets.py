"""A secret is readable by the training's role alone, and reachable from its subnet."""

from __future__ import annotations

import pytest
from aws_cdk.assertions import Template

from stacks.platform import EnvironmentStage
from tests.stacks.conftest import MakeVariant
from tests.stacks.reading import definition, properties, statements

ARN = "arn:aws:secretsmanager:us-east-1:111122223333:secret:team/hf-??????"


@pytest.fixture(scope="module")
def stage(make_variant: MakeVariant) -> EnvironmentStage:
    secrets = {"HF_TOKEN": "team/hf", "OTHER": "team/hf"}
    training = {"strategy": "torchrun", "instance_type": "ml.m5.xlarge", "secrets": secrets}
    return make_variant("secret", training=training)


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


def test_nobody_else_may_ask_secrets_manager(with_secret: Template, pipeline: Template) -> None:
    (asking,) = [
        policy["PolicyName"]
        for policy in properties(with_secret, "AWS::IAM::Policy")
        if "secretsmanager" in str(policy)
    ]
    assert "Training" in asking
    assert "secretsmanager" not in str(properties(pipeline, "AWS::IAM::Policy"))


def test_the_job_gets_the_name_and_nothing_more(with_secret: Template) -> None:
    train = definition(with_secret)["Steps"][0]["Arguments"]
    assert train["Environment"] == {
        "SHOAL_SECRET_HF_TOKEN": "team/hf",
        "SHOAL_SECRET_OTHER": "team/hf",
    }


def test_the_vpc_has_an_endpoint_for_it_and_has_none_without_a_secret(
    stage: EnvironmentStage, network: Template
) -> None:
    with_endpoint, without = (
        [each["ServiceName"] for each in properties(template, "AWS::EC2::VPCEndpoint")]
        for template in (Template.from_stack(stage.network), network)
    )
    assert "com.amazonaws.us-east-1.secretsmanager" in with_endpoint
    assert "com.amazonaws.us-east-1.secretsmanager" not in without
