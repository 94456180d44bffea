"""A platform team's rules for the bootstrap, roles, the key and the data's bucket, obeyed from the
first deployment to the last deletion.
"""

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

ENVIRONMENT = """name: ruled
workload: mnist
account: "111122223333"
region: us-east-1
protect: false
network: {training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}
training:
  strategy: torchrun
  instance_type: ml.m5.xlarge
  instance_count: 1
  hyperparameters: {epochs: 1, batch-size: 256, learning-rate: 0.01, seed: 1}
organisation: {bootstrap_qualifier: acme1, role_path: /ml/, role_prefix: ml-}
"""
ROLES = "arn:aws:iam::111122223333:role/ml/ml-*"
ONLY_THERE: dict[str, Any] = {
    "Effect": "Deny",
    "Action": ["iam:CreateRole", "iam:PassRole", "iam:PutRolePolicy"],
    "NotResource": ROLES,
}
"""As a service control policy says it."""


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def keep_roles_under_the_path(target: Target) -> None:
    """Deny CloudFormation roles outside the path and without the prefix."""
    role = f"cdk-acme1-cfn-exec-role-{target.account}-{target.region}"
    document = policy(ONLY_THERE)
    target.client("iam").put_role_policy(RoleName=role, PolicyName="scp", PolicyDocument=document)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_it_lives_by_the_rules_of_its_organisation(checkout: Checkout, tmp_path: Path) -> None:
    own = checkout.with_environment(tmp_path, "ruled", ENVIRONMENT)
    with own.emulator("ruled"):
        target = own.local_target
        Workspace(own.root, os.environ).open("ruled", local=True).prepared(lambda _: None)
        keep_roles_under_the_path(target)
        for words in ("deploy ruled", "data upload ruled", "run ruled --follow"):
            own.succeed(*words.split(), "--local")
        roles = target.client("iam").list_roles()["Roles"]
        ours = [each["Arn"] for each in roles if "shoal-mnist-ruled" in each["RoleName"]]
        assert ours
        assert all(arn.startswith(ROLES.rstrip("*")) for arn in ours)
        own.succeed("destroy", "ruled", "--local")
        owner = Owner("shoal", tags=(("shoal:project", "mnist"),), role_prefix="ml-")
        assert [each for each in of_environment(target, owner) if each.kind != "log group"] == []
