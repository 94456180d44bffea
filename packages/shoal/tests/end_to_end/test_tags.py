"""An organisation that demands a tag of all that is made: deployed, run and destroyed under it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from shoal.aws.inventory import Owner, of_environment
from shoal.aws.target import Target
from shoal.verbs.workspace import Workspace
from tests.end_to_end.conftest import Checkout

KEY, VALUE = "cost-center", "4711"
ENVIRONMENT = f"""name: taxed
workload: mnist
account: "111122223333"
region: us-east-1
protect: false
permissions_boundary: DemandsTags
network: {{training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}}
tags: {{{KEY}: "{VALUE}"}}
required_tags: {{{KEY}: []}}
training:
  strategy: torchrun
  instance_type: ml.m5.xlarge
  instance_count: 1
  hyperparameters: {{epochs: 1, batch-size: 256, learning-rate: 0.01, seed: 1}}
"""
DEMANDED: dict[str, Any] = {
    "Effect": "Deny",
    "Action": [
        *("iam:CreateRole", "kms:CreateKey", "lambda:CreateFunction"),
        *("sns:CreateTopic", "sqs:CreateQueue"),
        *(f"sagemaker:Create{each}" for each in ("Pipeline", "ModelPackageGroup", "TrainingJob")),
        *(f"sagemaker:Create{each}" for each in ("ProcessingJob", "Model", "EndpointConfig")),
        "sagemaker:CreateEndpoint",
    ],
    "Resource": "*",
    "Condition": {"StringNotEquals": {f"aws:RequestTag/{KEY}": VALUE}},
}
"""As a service control policy says it."""


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def demand_tags(target: Target) -> None:
    """Deny what is made without the tag, to the roles of the environment and to CloudFormation."""
    iam = target.client("iam")
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    iam.create_policy(PolicyName="DemandsTags", PolicyDocument=policy(everything, DEMANDED))
    role = f"cdk-hnb659fds-cfn-exec-role-{target.account}-{target.region}"
    iam.put_role_policy(RoleName=role, PolicyName="scp", PolicyDocument=policy(DEMANDED))


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_it_lives_where_every_request_needs_a_tag(checkout: Checkout, tmp_path: Path) -> None:
    own = checkout.with_environment(tmp_path, "taxed", ENVIRONMENT)
    with own.emulator("taxed"):
        target = own.local_target
        session = Workspace(own.root, os.environ).open("taxed", local=True)
        session.prepared(lambda _: None)
        (toolkit,) = target.client("cloudformation").describe_stacks()["Stacks"]
        assert toolkit["Tags"] == [{"Key": KEY, "Value": VALUE}]
        demand_tags(target)
        for words in ("deploy taxed", "data upload taxed", "run taxed --follow"):
            own.succeed(*words.split(), "--local")
        sagemaker = target.client("sagemaker")
        (job,) = sagemaker.list_training_jobs()["TrainingJobSummaries"]
        tags = sagemaker.list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]
        assert {"Key": KEY, "Value": VALUE} in tags
        assert sagemaker.list_models()["Models"] == []  # torn down, whoever's tags it has
        own.succeed("destroy", "taxed", "--local")
        owner = Owner("shoal", tags=((KEY, VALUE),))
        assert [each for each in of_environment(target, owner) if each.kind != "log group"] == []
